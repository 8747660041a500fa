#include "dp_bench/random.h"
