// SPDX-License-Identifier: Apache-2.0
// What io_uring can do on this machine: kernels have learnt it bit by bit, and those who run containers
// often forbid it.
//
//     const gyre::io::uring_support here = gyre::io::probe_uring();
//     if (!here.usable) std::fprintf(stderr, "no io_uring: %s\n", here.reason.c_str());
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace gyre::io {

/// What a ring makes use of where the kernel has it; everything works without.
struct uring_features {
  /// Only one thread uses the ring, which the kernel may rely on (Linux 6.0); for the next alone.
  bool single_issuer = false;
  /// What has become ready is looked at when the loop asks, not in between (Linux 6.1; needs
  /// single_issuer).
  bool deferred_task_running = false;
  /// The kernel interrupts nobody in order to tell that something is ready (Linux 5.19).
  bool cooperative_task_running = false;
  /// One request accepts all connections (Linux 5.19).
  bool multishot_accept = false;
  /// One request receives all that comes, into buffers which it takes from a ring (Linux 6.0).
  bool multishot_receive = false;
  /// Threads without a ring can send messages to one, which wakes its loop (Linux 6.13).
  bool message_from_anywhere = false;
  /// Files are opened, read, written, synced and asked for their status without a thread (Linux 5.6).
  bool files = false;

  friend bool operator==(const uring_features&, const uring_features&) = default;
};

/// Whether and how this process can use io_uring.
struct uring_support {
  /// The kernel lets this process have rings, and they can what every ring of gyre needs (Linux 5.13).
  bool usable = false;
  /// Why not, in a phrase: "the sysctl kernel.io_uring_disabled is 2", "this kernel has no io_uring".
  /// Empty if usable.
  std::string reason = {};
  uring_features features = {};
};

/// Finds that out, by asking the kernel for each thing and never by its version. The first call takes
/// some 0.2 ms and four descriptors, later ones a load and a copy, in a forked child too. Where
/// the first fails for want of descriptors or memory, that is the reason it gives, and the next call
/// asks again; all else is remembered until the process ends. Any thread. Throws std::bad_alloc.
///
/// A seccomp policy that kills whoever tries, rather than refuse, kills this process too: a program
/// that lives under such a one says io_interface::epoll, or GYRE_IO=epoll, and nothing is asked.
uring_support probe_uring();

namespace detail {

/// Says in a phrase why a call of io_uring was refused.
std::string why_no_uring(const std::system_error& refusal);
/// The same where the sysctl kernel.io_uring_disabled reads `disabled`: "0", "1", "2", or nothing on
/// kernels before 6.6.
std::string why_no_uring(const std::system_error& refusal, std::string_view disabled);

}  // namespace detail
}  // namespace gyre::io
