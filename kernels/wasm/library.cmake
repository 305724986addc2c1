# edgedec.wasm: the engine and the kernels for browsers (engine/web/edgedec_web.h). kernels/CMakeLists.txt includes it for
# wasm/toolchain.cmake. No thread, no file, no time but what JavaScript hands in.
#
# edgedec-fast.wasm is the same for browsers of today: threads that help over shared memory, and relaxed SIMD, with a fused
# multiply-add in place of an exact one made of doubles, and products of bytes. A page takes it where a test finds it exact.
file(GLOB WASM_SOURCES CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
     core/*.cc core/base/*.cc core/control/*.cc core/decode/*.cc core/draft/*.cc core/grammar/*.cc
     core/memory/*.cc core/sampling/*.cc core/tables/*.cc
     engine/base/*.cc engine/bundle/*.cc engine/decode/*.cc engine/text/*.cc engine/web/*.cc)
list(FILTER WASM_SOURCES EXCLUDE REGEX "^engine/(base/(files|cores|block)|decode/(cost_file|pass_costs))\\.cc$")
list(APPEND WASM_SOURCES
     engine/capi/chat_message.cc engine/capi/conversation.cc engine/capi/figures.cc engine/capi/form.cc engine/capi/loops.cc
     engine/capi/reply.cc engine/capi/turns.cc
     engine/drafters/device_folder.cc engine/drafters/own_layers.cc engine/drafters/prepared_maps.cc engine/drafters/registry.cc
     engine/drafters/trim.cc engine/drafters/vocabulary_pair.cc
     engine/model/layer_graph.cc engine/model/layer_states.cc engine/model/state_memory.cc
     common/isa.cc quant_linear/select.cc gated_mlp/gated_mlp.cc head_topk/head_topk.cc rms_norm/select.cc
     rotary_table/select.cc tree_attention/select.cc byte_products/select.cc byte_products/scalar.cc short_conv/select.cc gated_delta/select.cc
     quant_linear/scalar.cc quant_linear/linear.cc quant_embedding/quant_embedding.cc gated_mlp/scalar.cc
     head_topk/refine.cc head_topk/finish.cc head_topk/scalar.cc rms_norm/scalar.cc rotary_table/scalar.cc
     tree_attention/scalar.cc tree_attention/attend.cc short_conv/scalar.cc gated_delta/scalar.cc
     short_conv/short_conv.cc gated_delta/gated_delta.cc recurrent/list_steps.cc recurrent/steps.cc
     common/mapped_file.cc
     text/table.cc text/merger.cc text/split.cc text/words.cc text/compose.cc text/steps.cc
     wasm/files.cc wasm/system.cc
     quant_linear/wasm.cc byte_products/wasm.cc gated_mlp/wasm.cc head_topk/wasm.cc rms_norm/wasm.cc rotary_table/wasm.cc tree_attention/wasm.cc
     short_conv/wasm.cc gated_delta/wasm.cc
     experts/choose.cc experts/experts.cc experts/select.cc experts/scalar.cc experts/waves.cc experts/wasm.cc wasm/experts.cc)
file(STRINGS engine/web/edgedec_web.h lines REGEX "^EDGEDEC_WEB_API")
foreach(line ${lines})
  string(REGEX MATCH "edgedec_web_[a-z_]+\\(" name "${line}")
  string(REPLACE "(" "" name "${name}")
  list(APPEND exports -Wl,--export=${name})
endforeach()
foreach(variant edgedec edgedec-fast)
  string(REPLACE "-" "_" target ${variant}_wasm)
  add_executable(${target} ${WASM_SOURCES})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${variant} SUFFIX .wasm)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE EDGEDEC_LINEAR_WASM EDGEDEC_FLOATS_WASM)
  target_compile_options(${target} PRIVATE ${EDGEDEC_FLAGS} ${EDGEDEC_HOT} -fno-builtin-fma -ffile-prefix-map=${CMAKE_SOURCE_DIR}=edgedec)
  target_link_options(${target} PRIVATE -mexec-model=reactor ${exports} -Wl,--strip-all -Wl,-z,stack-size=1048576)
endforeach()
set(FAST -mcpu=generic+atomics+bulk_memory+nontrapping_fptoint+relaxed_simd+sign_ext+simd128)  # of the C library, too
target_compile_options(edgedec_fast_wasm PRIVATE ${FAST})
target_link_options(edgedec_fast_wasm PRIVATE ${FAST} -Wl,--shared-memory -Wl,--import-memory -Wl,--initial-memory=33554432
                    -Wl,--max-memory=4294901760 -Wl,--export=__wasm_init_tls -Wl,--export=__tls_size -Wl,--export=__stack_pointer)
