// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/transport_handshake.hpp>

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <new>
#include <utility>

namespace gyre::net::detail {
namespace {

constexpr std::size_t received_at_once = std::size_t{16} << 10;

}  // namespace

transport_handshake::transport_handshake(event_loop& loop, unique_fd connection,
                                         const transport& by, std::string_view host, function done)
    : connection_(std::move(connection)),
      filter_(by.make_filter(host)),
      done_(std::move(done)),
      timeout_error_(by.timeout_error()),
      watch_(loop, connection_.get(), [this](readiness) { advance(); }),
      deadline_(loop, [this] { end(timeout_error_); }) {
  const std::error_code failed = filter_->shake_hands({}, unsent_);
  if (failed) throw std::system_error(failed, "gyre::net::transport");
  watch_.start(unsent_.empty() ? readiness::readable : readiness::writable);
  if (by.handshake_timeout().count() > 0) deadline_.start_after(by.handshake_timeout());
}

unique_fd transport_handshake::release() noexcept {
  watch_.stop();
  return std::move(connection_);
}

void transport_handshake::end(std::error_code why) {
  deadline_.cancel();
  watch_.stop();
  function done = std::move(done_);
  done(why);
}

// Whether all is sent. Throws std::system_error.
bool transport_handshake::send_waiting() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(connection_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) throw std::system_error(errno, std::system_category());
    unsent_.consume(static_cast<std::size_t>(sent));
  }
  return true;
}

void transport_handshake::advance() {
  std::error_code failed;
  try {
    for (;;) {
      if (!send_waiting()) return watch_.start(readiness::writable);
      if (filter_->is_established()) break;
      std::array<std::byte, received_at_once> room;
      const ssize_t count = ::recv(connection_.get(), room.data(), room.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return watch_.start(readiness::readable);
      if (count < 0) {
        failed = {errno, std::system_category()};
        break;
      }
      if (count == 0) {
        failed = filter_->end_of_bytes();
        break;
      }
      failed =
          filter_->shake_hands(std::span(room).first(static_cast<std::size_t>(count)), unsent_);
      if (failed) {
        send_waiting();  // an alert
        break;
      }
    }
  } catch (const std::system_error& error) {
    if (!failed) failed = error.code();
  } catch (const std::exception&) {
    failed = std::make_error_code(std::errc::not_enough_memory);
  }
  end(failed);
}

}  // namespace gyre::net::detail
