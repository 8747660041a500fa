// Marks what the two core libraries export; everything else is hidden.
#pragma once

#define DPB_API __attribute__((visibility("default")))
