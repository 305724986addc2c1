"""Functions that a library for macOS asks the system for, and those that macOS 11 has."""

from __future__ import annotations

import struct

_LIBRARY = (0xFEEDFACF, 6)  # of 64 bits, and its kind
_SYMBOLS, _EXTERNAL, _STAB, _KIND, _UNDEFINED = 0x2, 0x01, 0xE0, 0x0E, 0x0

# Apple's headers state the first version of each; none of these is of a later one than 11.
_NAMES = """
_DefaultRuneLocale _Unwind_DeleteException _Unwind_GetIP _Unwind_GetLanguageSpecificData
_Unwind_GetRegionStart _Unwind_RaiseException _Unwind_Resume _Unwind_SetGR _Unwind_SetIP __cxa_atexit
__error __stderrp _tlv_atexit _tlv_bootstrap dyld_stub_binder
__bzero abort aligned_alloc atoi bzero calloc free malloc malloc_zone_pressure_relief memchr memcmp memcpy
memmove memset memset_pattern16 posix_memalign realloc
ceil ceilf exp floor fmaf frexp ldexp log log2 nearbyint nearbyintf nextafterf pow
close fcntl fputc fstat fstat$INODE64 fsync fwrite lstat lstat$INODE64 mkdir mmap munmap open pread read
realpath$DARWIN_EXTSN rename stat stat$INODE64 unlink vfprintf write
clock_gettime getenv getloadavg getpid host_statistics64 localtime_r mach_host_self
mach_port_deallocate mach_task_self_ sysconf sysctlbyname task_info time
dlerror dlopen dlsym
pthread_cond_broadcast pthread_cond_wait pthread_create pthread_equal pthread_getspecific pthread_join
pthread_key_create pthread_mach_thread_np pthread_mutex_lock pthread_mutex_unlock pthread_once
pthread_self pthread_setspecific sched_yield
snprintf strcmp strcspn strerror strftime strlen strncmp strtod strtof strtol strtold strtoll strtoul
strtoull swprintf wcslen wcstod wcstof wcstol wcstold wcstoll wcstoul wcstoull wmemchr wmemcmp
"""
MACOS_11 = set(_NAMES.split())


def needed(data: bytes) -> set[str]:
    """Names that a library asks other libraries for, without the underscore that C puts before them.

    Raises ValueError for what is no library of macOS.
    """
    if len(data) < 32 or struct.unpack_from("<I8xI", data) != _LIBRARY:
        raise ValueError("no library of macOS")
    (commands,) = struct.unpack_from("<I", data, 16)
    found, at = set(), 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command == _SYMBOLS:
            first, count, texts, _ = struct.unpack_from("<4I", data, at + 8)
            for entry in range(first, first + 16 * count, 16):
                text, kind = struct.unpack_from("<IB", data, entry)
                if kind & _EXTERNAL and not kind & _STAB and kind & _KIND == _UNDEFINED:
                    end = data.index(b"\0", texts + text)
                    found.add(data[texts + text : end].decode().removeprefix("_"))
        at += size
    return found
