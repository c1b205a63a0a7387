# Adds the float32 kernels to a target: kernels.cpp once per instruction set, everything else once for the baseline.
# Usage: include(native/kernels.cmake) and starcast_add_kernels(<target>).
set(STARCAST_NATIVE_DIR ${CMAKE_CURRENT_LIST_DIR})

function(starcast_add_kernels target)
  find_package(Threads REQUIRED)
  set(common ${STARCAST_OPTIMIZE} -ffp-contract=fast -fno-math-errno -fno-trapping-math -fvisibility=hidden -Wno-psabi -Wno-ignored-attributes)
  if(STARCAST_SANITIZE) # checks of every sum, or inline ones of every access, take GCC more than five minutes
    list(APPEND common -g1 -fno-sanitize=undefined)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND common "SHELL:--param asan-instrumentation-with-call-threshold=0")
    endif()
  endif()
  set(sets baseline)
  # Windows stays at the baseline: what __builtin_cpu_supports calls is not linked with Clang there.
  set(processor ${CMAKE_SYSTEM_PROCESSOR})
  if(APPLE AND CMAKE_OSX_ARCHITECTURES) # one machine builds for the other there
    set(processor ${CMAKE_OSX_ARCHITECTURES})
  endif()
  if(processor MATCHES "x86_64|AMD64|amd64" AND NOT processor MATCHES "arm64" AND NOT WIN32)
    list(APPEND sets avx512)
    target_compile_definitions(${target} PRIVATE STARCAST_HAS_AVX512)
    if(NOT STARCAST_SANITIZE) # a third of the build, for a few lines that neither of the other sets has
      list(APPEND sets avx2)
      target_compile_definitions(${target} PRIVATE STARCAST_HAS_AVX2)
    endif()
  endif()
  set(flags_baseline "")
  set(flags_avx2 -mavx2 -mfma)
  set(flags_avx512 -mavx2 -mfma -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=256)
  foreach(isa IN LISTS sets)
    add_library(${target}_${isa} OBJECT ${STARCAST_NATIVE_DIR}/kernels.cpp)
    set_target_properties(${target}_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
    target_compile_definitions(${target}_${isa} PRIVATE STARCAST_ISA_NS=${isa})
    target_compile_options(${target}_${isa} PRIVATE ${common} ${flags_${isa}})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
  target_sources(${target} PRIVATE ${STARCAST_NATIVE_DIR}/dispatch.cpp ${STARCAST_NATIVE_DIR}/rounds.cpp ${STARCAST_NATIVE_DIR}/climb.cpp ${STARCAST_NATIVE_DIR}/bind_fast.cpp
                 ${STARCAST_NATIVE_DIR}/bind_ordinal.cpp ${STARCAST_NATIVE_DIR}/bind_ascent.cpp ${STARCAST_NATIVE_DIR}/bind_parts.cpp
                 ${STARCAST_NATIVE_DIR}/bind_top.cpp)
  target_link_libraries(${target} PRIVATE Threads::Threads)
endfunction()
