# Differences of a library for Android; kernels/CMakeLists.txt includes it for android/toolchain.cmake.
set(EDGEDEC_PROBES OFF CACHE BOOL "" FORCE)
# The functions of tests and benchmarks need threads and time of their own; an app calls engine/edgedec.h.
list(FILTER BASE_SOURCES EXCLUDE REGEX "^(quant_linear|byte_products|tree_attention|encoder|gated_delta|short_conv|recurrent|experts|rms_norm|rotary_table|vector_math|text)/(capi|list_steps).cc$")
list(APPEND BASE_SOURCES android/runtime.cc)
# The methods of a Java class, for apps, with the headers of any JDK: those of Android have the same functions.
set(EDGEDEC_JNI "" CACHE PATH "Folder of jni.h, to have Java's side of the engine in the library")
if(EDGEDEC_JNI)
  list(APPEND BASE_SOURCES android/jni.cc)
  set_source_files_properties(android/jni.cc PROPERTIES INCLUDE_DIRECTORIES "${EDGEDEC_JNI};${EDGEDEC_JNI}/linux")
endif()

# Atomic operations are instructions, not calls
# of libgcc; the checks of glibc's headers would call functions of glibc.
list(APPEND EDGEDEC_FLAGS -mno-outline-atomics -fno-gnu-unique -U_FORTIFY_SOURCE -fno-stack-protector
     -DEDGEDEC_ANDROID -ffunction-sections -fdata-sections)
# Paths of the machine stay out, so that the same source gives the same bytes.
list(APPEND EDGEDEC_FLAGS -ffile-prefix-map=${CMAKE_SOURCE_DIR}=edgedec)

# Stand-ins for the system's libraries, with the names that allowed.txt allows. The linker refuses any other name.
set(EDGEDEC_STUBS ${CMAKE_CURRENT_BINARY_DIR}/android)
file(STRINGS android/allowed.txt lines REGEX "^lib")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS android/allowed.txt)
set(EDGEDEC_SYSTEM_LIBRARIES libc libm libdl liblog)
foreach(library ${EDGEDEC_SYSTEM_LIBRARIES})
  set(names "")
  foreach(line ${lines})
    if(line MATCHES "^${library}: (.*)")
      string(REPLACE " " ";" some "${CMAKE_MATCH_1}")
      list(APPEND names ${some})
    endif()
  endforeach()
  list(TRANSFORM names PREPEND ".globl ")
  list(TRANSFORM names REPLACE "^.globl (.*)$" "    .globl \\1\n\\1:")
  list(JOIN names "\n" text)
  file(CONFIGURE OUTPUT ${EDGEDEC_STUBS}/${library}.s CONTENT "${text}\n" @ONLY)
  add_custom_command(OUTPUT ${EDGEDEC_STUBS}/${library}.so DEPENDS ${EDGEDEC_STUBS}/${library}.s
    COMMAND ${CMAKE_CXX_COMPILER} -shared -nostdlib -Wl,-soname,${library}.so -o ${EDGEDEC_STUBS}/${library}.so
            ${EDGEDEC_STUBS}/${library}.s)
  list(APPEND stubs ${EDGEDEC_STUBS}/${library}.so)
endforeach()
add_custom_target(edgedec_android_stubs DEPENDS ${stubs})

# Makes a shared library that only needs Android's own; 16 KiB pages are those of newer phones.
function(android_library target name)
  set(exported ${CMAKE_SOURCE_DIR}/kernels/android/exports.map)
  add_dependencies(${target} edgedec_android_stubs)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SKIP_BUILD_RPATH ON LINK_DEPENDS "${stubs};${exported}")
  target_link_options(${target} PRIVATE -nostdlib -Wl,--no-undefined -Wl,--gc-sections -Wl,--build-id=none -Wl,-s
    -Wl,-z,max-page-size=16384 -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete -Wl,--hash-style=gnu -Wl,--exclude-libs,ALL
    -Wl,--version-script=${exported})
  target_link_libraries(${target} PRIVATE ${stubs} -lgcc)
endfunction()
