// SPDX-License-Identifier: Apache-2.0
// Attempts to connect: the parts that tcp_client and the coroutines share.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/socket.hpp>

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <set>

namespace gyre::net::detail {

/// connect(2) as an Operation.
struct connect_operation : io::detail::single_request<io::connect_request> {
  using value_type = void;
  static constexpr const char* name = "gyre::net: connect";

  connect_operation(io::detail::open_descriptor* on, const sockaddr* to, socklen_t size) noexcept
      : single_request(on, to, size, nullptr) {}

  static void value(io::result) noexcept {}
};

/// A stream socket for a connection to `to`, bound to `local` if that is an address, also while
/// connections from there linger, unless `options` say otherwise. Throws std::system_error.
socket open_to_connect(const endpoint& to, const endpoint& local = {},
                       const socket_options& options = {});

/// Whether a socket that has connected is of use. io::errc::connected_to_itself: it is a TCP socket
/// and its own peer, as the kernel can choose a local port that is just being connected to (RFC
/// 793's simultaneous open, with itself). Another error: it is connected no more.
std::error_code check_connected(socket_ref connected) noexcept;

/// Throws std::system_error for an attempt that has failed.
[[noreturn, gnu::cold]] void throw_not_connected(std::error_code error, const endpoint& to);

/// The loop that a coroutine of this context runs on. Throws std::system_error
/// (std::errc::operation_not_permitted) if there is none.
event_loop& loop_of(const task_context& context);

/// Candidates for a connection (RFC 8305, section 4): each version's addresses keep their order,
/// and the versions take turns. An empty one needs no memory. Not thread-safe.
class candidate_list {
 public:
  /// Adds those that no earlier call added. Throws std::bad_alloc.
  void add(const std::vector<endpoint>& candidates) {
    if (candidates.empty()) return;
    if (known_.empty()) first_family_ = candidates.front().family();
    for (const endpoint& each : candidates) {
      if (known_.contains(each)) continue;
      versions_[each.family() == first_family_ ? 0 : 1].candidates.push_back(each);
    }
    known_.insert(candidates.begin(), candidates.end());
  }
  /// Whether any were added, tried or not.
  bool has_known() const noexcept { return !known_.empty(); }
  /// Takes the next one; nothing if all have been taken.
  std::optional<endpoint> next() {
    for (const std::size_t which : {turn_, 1 - turn_}) {
      version& from = versions_[which];
      if (from.taken == from.candidates.size()) continue;
      turn_ = 1 - which;
      return from.candidates[from.taken++];
    }
    return std::nullopt;
  }

 private:
  struct version {
    std::vector<endpoint> candidates;
    std::size_t taken = 0;  // of these
  };
  std::set<endpoint> known_;
  address_family first_family_ = address_family::none;
  std::array<version, 2> versions_;  // the first one's, and the other
  std::size_t turn_ = 0;             // whose next is taken, if there is one
};

}  // namespace gyre::net::detail
