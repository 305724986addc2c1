extern "C" int edgedec_abi() { return 1; }
