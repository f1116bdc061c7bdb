// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_client.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>
#include <gyre/net/socket.hpp>

#include <poll.h>

#include <array>

namespace gyre::net {
namespace {

constexpr std::size_t max_datagram_size = 65535;
// The limit ends the loop if datagrams come faster than ask() drops them.
constexpr int max_dropped = 65536;

// Waits until the socket is ready; returns false if the deadline comes first. `outcome`: the result
// of a call that would have had to wait; throws any other error of that call.
bool wait_after(const io::result& outcome, const char* function_name, int socket, short event,
                steady_time deadline) {
  if (!outcome.would_block()) detail::fail(outcome.error(), function_name);
  const io::result result = detail::system::wait_until_ready(socket, event, deadline);
  if (!result) detail::fail(result.error(), "poll");
  return result.count() > 0;
}

}  // namespace

udp_client::udp_client(const endpoint& server, const endpoint& local) {
  socket client = socket::open(server.family(), socket_type::datagram);
  if (local.family() != address_family::none) client.bind(local);
  static_cast<void>(client.connect(server));  // connecting a datagram socket completes at once
  fd_ = client.release();
}

void udp_client::send(std::span<const std::byte> bytes) {
  for (;;) {
    const io::result outcome = detail::system::send_without_waiting(fd_.get(), bytes);
    if (outcome) return;
    wait_after(outcome, "send", fd_.get(), POLLOUT, steady_time::max());
  }
}

std::optional<io::buffer> udp_client::receive(duration timeout) {
  const steady_time deadline = gyre::detail::later(gyre::detail::monotonic_now(), timeout);
  std::array<std::byte, max_datagram_size> bytes;
  for (;;) {
    const io::result count = detail::system::receive_without_waiting(fd_.get(), bytes);
    if (count) {
      std::optional<io::buffer> datagram(std::in_place);
      datagram->append(std::span(bytes).first(count.count()));
      return datagram;
    }
    if (!wait_after(count, "recv", fd_.get(), POLLIN, deadline)) return std::nullopt;
  }
}

std::optional<io::buffer> udp_client::ask(std::span<const std::byte> question, duration timeout) {
  // Late replies to earlier questions are dropped, and the errors that these questions caused.
  for (int drop_count = 0; drop_count < max_dropped; ++drop_count) {
    if (detail::system::receive_without_waiting(fd_.get(), {}).would_block()) break;
  }
  send(question);
  return receive(timeout);
}

endpoint udp_client::local_endpoint() const { return socket_ref(fd_.get()).local_endpoint(); }

}  // namespace gyre::net
