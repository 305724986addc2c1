// exp and log in double, built from IEEE operations alone: the same bits as edgedec/sampling/portable.py, everywhere.
#pragma once

namespace edgedec::engine {

// e^x to about 1e-15 relative, for x <= 700; below -700 it stays at e^-700.
double portable_exp(double x);

// Natural logarithm of a positive normal number, to about 1e-15.
double portable_log(double x);

}  // namespace edgedec::engine
