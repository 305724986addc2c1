# The AVX-512, AMX and WebAssembly rows on a model of their instructions (SIMDe, and simd/amx.h for tiles), to test them bit
# for bit on machines without these instructions. Built where SIMDe is installed; only tests load it.
list(TRANSFORM FLOAT_OPS APPEND /avx512.cc OUTPUT_VARIABLE FLOAT_AVX512)
list(TRANSFORM FLOAT_OPS APPEND /wasm.cc OUTPUT_VARIABLE FLOAT_WASM)
add_library(edgedec_modelled OBJECT quant_linear/avx512_vnni.cc quant_linear/amx.cc quant_linear/wasm.cc
            byte_products/avx512_vnni.cc byte_products/amx.cc byte_products/wasm.cc ${FLOAT_AVX512} ${FLOAT_WASM})
target_include_directories(edgedec_modelled PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${SIMDE_INCLUDE})
target_compile_options(edgedec_modelled PRIVATE ${EDGEDEC_FLAGS} ${FLAGS_avx2} -Og -Wno-psabi)
# With Clang, SIMDe would refuse shifts by numbers that become constants where functions are inlined.
target_compile_definitions(edgedec_modelled PRIVATE EDGEDEC_EMULATE_AVX512 SIMDE_NO_CHECK_IMMEDIATE_CONSTANT)

add_library(edgedec_kernels_emulated SHARED ${CHOOSING_SOURCES})
compiled(edgedec_kernels_emulated ${EDGEDEC_HOT})
target_compile_definitions(edgedec_kernels_emulated PRIVATE EDGEDEC_EMULATE_AVX512 EDGEDEC_LINEAR_AMX
  EDGEDEC_LINEAR_AVX512_VNNI EDGEDEC_LINEAR_WASM EDGEDEC_FLOATS_AVX512 EDGEDEC_FLOATS_WASM)
target_link_libraries(edgedec_kernels_emulated PRIVATE edgedec_base edgedec_engine edgedec_scalar edgedec_modelled
                      Threads::Threads)
install(TARGETS edgedec_kernels_emulated LIBRARY DESTINATION edgedec/kernels)
