# SPDX-License-Identifier: Apache-2.0
# cmake -D NM=nm -D LIBRARY=libgyre_io.a -D FAULTS=system_call_faults.cpp -P known_calls.cmake
#
# Fails if the library makes a call that is neither fault-injectable nor listed here as harmless.

cmake_minimum_required(VERSION 3.25)

# Calls that cannot fail with gyre's arguments, or whose failure does not matter; posix_spawnp, which
# tests make fail by a missing program; those of terminals, by a descriptor that is none; access,
# lstat and readlink, by a path that leads nowhere.
set(others
  abort access atexit cfmakeraw environ fprintf free getenv getpgrp getpid getsid inotify_rm_watch
  io_uring_free_probe io_uring_peek_batch_cqe io_uring_queue_exit ioctl isatty kill lstat malloc
  munmap posix_spawn_file_actions_addchdir_np posix_spawn_file_actions_addclosefrom_np
  posix_spawn_file_actions_adddup2 posix_spawn_file_actions_destroy
  posix_spawn_file_actions_init posix_spawnattr_destroy posix_spawnattr_init
  posix_spawnattr_setflags posix_spawnattr_setpgroup posix_spawnattr_setsigdefault
  posix_spawnattr_setsigmask posix_spawnp pthread_atfork pthread_mutex_lock pthread_mutex_unlock
  pthread_sigmask readlink sched_yield
  secure_getenv sigaction sigaddset sigemptyset sigismember sigtimedwait snprintf stderr sysconf
  tcgetattr tcgetpgrp tcgetsid tcsetattr waitid)

file(READ "${FAULTS}" source)
string(REGEX MATCHALL "X\\([a-z0-9_]+\\)" known "${source}")
list(TRANSFORM known REPLACE "X\\((.+)\\)" "\\1")

execute_process(COMMAND "${NM}" -u "${LIBRARY}" OUTPUT_VARIABLE undefined
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "U [A-Za-z0-9_]+" called "${undefined}")
list(TRANSFORM called REPLACE "^U " "")
# The replacements of calls in a hardened C library.
list(TRANSFORM called REPLACE "^__(.+)_chk$" "\\1")
list(REMOVE_DUPLICATES called)
# The compiler's own functions, C++ names, memory and string functions, and pure computations.
list(FILTER called EXCLUDE REGEX "^(_|mem|str|bcmp|gnu_dev_)")

if(NOT "recv" IN_LIST called OR NOT "recv" IN_LIST known)
  message(FATAL_ERROR "found no calls in ${LIBRARY}, or none in ${FAULTS}")
endif()
list(REMOVE_ITEM called ${known} ${others})
if(called)
  list(JOIN called ", " called)
  message(FATAL_ERROR "no test can let these fail: ${called}. Add them to ${FAULTS}, with a test.")
endif()
