# How much the compiler optimises which part, and which sources it reads together. Neither changes a bit of any result.
#
# Headers cost more than what includes them: the 100 files of core and engine, compiled one by one, take three times as long as
# together. Constants of anonymous namespaces therefore have names of their own within a folder.
set(EDGEDEC_LEVEL "${EDGEDEC_LEVEL}" CACHE STRING "One level for all parts, as -O1, for builds that are tested; empty: each its own")
if(EDGEDEC_LEVEL)
  set(EDGEDEC_HOT ${EDGEDEC_LEVEL})
  set(EDGEDEC_WARM ${EDGEDEC_LEVEL})
  set(EDGEDEC_REFERENCE ${EDGEDEC_LEVEL})
else()
  set(EDGEDEC_HOT -O3)
  set(EDGEDEC_WARM -O2)
  set(EDGEDEC_REFERENCE -O1)  # the scalar rows: what all others are compared with
endif()

# Compiles a target's sources, those of one folder together; with EDGEDEC_FLAGS and what else is given.
function(compiled target)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE ${EDGEDEC_FLAGS} ${ARGN})
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(count EQUAL 1)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source ${sources})
    if(source MATCHES "^engine/([a-z]+)/|^(core/[a-z]+)/")
      string(REPLACE "/" "_" group "engine_${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
      string(REGEX REPLACE "core_(base|draft|memory|tables)$" "core" group ${group})
    elseif(source MATCHES "^core/")
      set(group engine_core)
    elseif(source MATCHES "onnx\\.cc$")
      set(group onnx)
    elseif(source MATCHES "^[a-z_]+/capi\\.cc$|^android/")
      continue()  # the first use the namespaces of their ops, whose names are alike
    elseif(source MATCHES "^(text|ort)/|^common/(os)/")
      set(group ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    else()
      set(group ${target})
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# ccache is used where it is installed. It sees paths below the checkout as relative, so another checkout finds them too.
option(EDGEDEC_CCACHE "Compile through ccache where it is installed" ON)
find_program(EDGEDEC_CCACHE_PROGRAM ccache)
if(EDGEDEC_CCACHE AND EDGEDEC_CCACHE_PROGRAM AND NOT EDGEDEC_PYTHON AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${EDGEDEC_CCACHE_PROGRAM})
endif()
