// SPDX-License-Identifier: Apache-2.0
// A sandbox in which the kernel refuses some system calls (seccomp): for child processes of tests,
// as the restriction is permanent.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gyre::test {

/// A system call, or only its calls with the second argument `second`.
struct refused_call {
  long number;
  int error;
  std::int64_t second = any;

  static constexpr std::int64_t any = -1;
};

/// Whether this kernel supports seccomp filters.
inline bool can_refuse_system_calls() { return ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0; }

/// Makes `call` fail with its error in this process, and in processes that it starts, from now on.
/// False if the kernel does not support that.
inline bool refuse(const refused_call& call) {
  constexpr std::uint32_t second_argument = offsetof(seccomp_data, args) + sizeof(std::uint64_t);
  const std::uint32_t error = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(call.error);
  const auto number = static_cast<std::uint32_t>(call.number);
  // Without a second argument the filter matches all values, as all are at least 0.
  std::array<sock_filter, 6> program{
      sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 3, number},
      sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, second_argument},
      call.second == refused_call::any
          ? sock_filter{BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0}
          : sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(call.second)},
      sock_filter{BPF_RET | BPF_K, 0, 0, error},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace gyre::test
