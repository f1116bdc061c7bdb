// SPDX-License-Identifier: Apache-2.0
// uring_support: the features of io_uring on this machine. They came with different kernels, and
// containers often forbid io_uring.
//
//     const gyre::io::uring_support here = gyre::io::probe_uring();
//     if (!here.usable) std::fprintf(stderr, "no io_uring: %s\n", here.reason.c_str());
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace gyre::io {

/// Optional features of a ring.
struct uring_features {
  /// Only one thread uses the ring, and the kernel may rely on that (Linux 6.0). A condition of
  /// deferred_task_running, and useless otherwise.
  bool single_issuer = false;
  /// Completions are made only when the loop requests them (Linux 6.1; needs single_issuer).
  bool deferred_task_running = false;
  /// The kernel interrupts no thread to make completions (Linux 5.19).
  bool cooperative_task_running = false;
  /// One request accepts all connections (Linux 5.19).
  bool multishot_accept = false;
  /// One request receives all data, into buffers that it takes from a ring (Linux 6.0).
  bool multishot_receive = false;
  /// Threads without a ring can send messages to a ring, which wakes its loop (Linux 6.13).
  bool message_from_anywhere = false;
  /// Calls on files (open, read, write, sync, status) need no thread (Linux 5.6).
  bool files = false;

  friend bool operator==(const uring_features&, const uring_features&) = default;
};

/// The availability of io_uring to this process.
struct uring_support {
  /// The kernel allows rings, with the features that every ring of gyre needs (Linux 5.13).
  bool usable = false;
  /// The reason why it is not usable: "the sysctl kernel.io_uring_disabled is 2", "this kernel has
  /// no io_uring". Empty if usable.
  std::string reason = {};
  uring_features features = {};
};

/// Probes io_uring: tries each feature, and never relies on the kernel's version. A seccomp policy
/// that kills on io_uring's calls, rather than refusing them, kills this process, too. In that case
/// use io_interface::epoll or GYRE_IO=epoll, with which probe_uring() is not called.
///
/// Thread-safety: any thread.
/// Errors: std::bad_alloc. A lack of descriptors, memory or threads is returned as the reason, and
/// the next call tries again; every other outcome is cached until the process ends, in forked
/// children, too.
/// Complexity: the first call takes some 0.2 ms, four descriptors and a thread that ends before it
/// returns; later ones a load and a copy.
uring_support probe_uring();

namespace detail {

/// Returns the reason why a call of io_uring was refused.
std::string why_no_uring(const std::system_error& error);
/// `sysctl_value`: the sysctl kernel.io_uring_disabled: "0", "1", "2", or nothing on kernels before
/// 6.6.
std::string why_no_uring(const std::system_error& error, std::string_view sysctl_value);

}  // namespace detail
}  // namespace gyre::io
