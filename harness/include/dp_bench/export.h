// Marks the symbols that the two core libraries export; all others are hidden.
#pragma once

#define DPB_API __attribute__((visibility("default")))
