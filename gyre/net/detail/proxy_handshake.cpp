// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/proxy_handshake.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace gyre::net::detail {
namespace {

constexpr std::size_t shortest_1 = 15;  // "PROXY UNKNOWN\r\n"
constexpr std::size_t longest_1 = 107;
constexpr std::size_t fixed_2 = 16;

}  // namespace

proxy_handshake::proxy_handshake(event_loop& loop, owner& informed, unique_fd connection,
                                 const endpoint& proxy, const proxy_protocol_options& options)
    : owner_(informed),
      options_(options),
      proxy_(proxy),
      connection_(std::move(connection)),
      watch_(loop, connection_.get(), [this](readiness) { read(); }),
      deadline_(loop, [this] { owner_.handshake_ended(*this, std::nullopt); }) {
  watch_.start(readiness::readable);
  deadline_.start_after(options_.timeout);
}

unique_fd proxy_handshake::release() noexcept {
  watch_.stop();
  return std::move(connection_);
}

// How many bytes more belong to the header whatever they are; zero: those up to the line's end.
std::size_t proxy_handshake::sure_to_be_header() const noexcept {
  if (header_.size() < shortest_1) return shortest_1 - header_.size();
  if (header_.front() == std::byte{'P'}) return 0;
  if (header_.size() < fixed_2) return fixed_2 - header_.size();
  const std::size_t said =
      std::to_integer<std::size_t>(header_[14]) << 8 | std::to_integer<std::size_t>(header_[15]);
  return fixed_2 + said - header_.size();
}

// As recv(2): what was read stands behind the header.
std::ptrdiff_t proxy_handshake::read_some() {
  const std::size_t before = header_.size();
  std::size_t wanted = sure_to_be_header();
  if (wanted == 0) {
    std::array<char, longest_1> seen;
    const ssize_t count = ::recv(connection_.get(), seen.data(), seen.size(), MSG_PEEK);
    if (count <= 0) return count;
    const std::string_view text(seen.data(), static_cast<std::size_t>(count));
    wanted = std::min(text.find('\n'), text.size() - 1) + 1;
  }
  header_.resize(before + wanted);
  const ssize_t count = ::recv(connection_.get(), header_.data() + before, wanted, 0);
  const int error = errno;
  header_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  errno = error;
  return count;
}

// Its end destroys it.
void proxy_handshake::read() {
  for (;;) {
    std::optional<proxy_header> header;
    try {
      const std::ptrdiff_t count = read_some();
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      parsed_proxy_header parsed = parse_proxy_header(header_, options_.limit);
      if (count > 0 && parsed && !*parsed) continue;
      if (count > 0 && parsed) header = std::move(*parsed);
    } catch (const std::bad_alloc&) {
      header.reset();
    }
    return owner_.handshake_ended(*this, std::move(header));
  }
}

}  // namespace gyre::net::detail
