// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/transport_handshake.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/last_words.hpp>

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <new>
#include <utility>

namespace gyre::net::detail {
namespace {

constexpr std::size_t received_at_once = std::size_t{16} << 10;

ssize_t receive(int fd, std::span<std::byte> room, int flags) noexcept {
  return gyre::detail::retry_interrupted(
      [&] { return ::recv(fd, room.data(), room.size(), flags); });
}

}  // namespace

transport_handshake::transport_handshake(connection_group& group, unique_fd connection,
                                         std::unique_ptr<layer> protocol, function done)
    : heavy_operation([](heavy_operation& due) { static_cast<transport_handshake&>(due).step(); }),
      group_(group),
      connection_(std::move(connection)),
      protocol_(std::move(protocol)),
      done_(std::move(done)),
      timeout_error_(protocol_->timeout_error()),
      watch_(group.loop(), connection_.get(), [this](readiness) { on_ready(); }),
      deadline_(group.loop(), [this] { end(timeout_error_); }) {
  protocol_->send_to(unsent_);
  const std::error_code failed = shake_hands({});
  if (failed) throw std::system_error(failed, "gyre::net::transport");
  watch(unsent_.empty() ? readiness::readable : readiness::writable);
  const duration limit = protocol_->handshake_timeout();
  if (limit.count() > 0) deadline_.start_after(limit);
}

transport_handshake::~transport_handshake() { static_cast<void>(count_held(0)); }

unique_fd transport_handshake::release() noexcept {
  watch_.stop();
  return std::move(connection_);
}

void transport_handshake::end(std::error_code why) {
  deadline_.cancel();
  watch_.stop();
  unlink();
  function done = std::move(done_);
  done(why);
}

// Reported once: a handshake that waits for its turn must not keep the loop busy meanwhile.
void transport_handshake::watch(readiness interest) {
  if (std::exchange(interest_, interest) != interest) watch_.start(interest, trigger::edge);
}

void transport_handshake::on_ready() {
  if (is_linked()) return;
  if (unsent_.empty()) return group_.loop().defer_heavy(*this);
  advance();
}

// Gives what follows a step, or the room for its output.
void transport_handshake::advance() {
  std::error_code failed;
  try {
    if (!send_waiting()) return watch(readiness::writable);
    if (sending_failed_) {
      failed = last_words(connection_.get(), *protocol_, sending_failed_);
    } else if (!protocol_->is_established()) {
      // An end counts as input, and so does an error.
      std::array<std::byte, 1> next;
      const bool is_empty = receive(connection_.get(), next, MSG_PEEK) < 0 && errno == EAGAIN;
      return is_empty ? watch(readiness::readable) : group_.loop().defer_heavy(*this);
    }
  } catch (const std::system_error& error) {
    failed = error.code();
  } catch (const std::exception&) {
    failed = std::make_error_code(std::errc::not_enough_memory);
  }
  end(failed);
}

void transport_handshake::step() {
  std::error_code failed;
  try {
    failed = read_and_step();
    if (failed) send_waiting();  // an alert
  } catch (const std::system_error& error) {
    failed = error.code();
  } catch (const std::exception&) {
    failed = std::make_error_code(std::errc::not_enough_memory);
  }
  failed ? end(failed) : advance();
}

// Whether nothing is left to be sent, or can be.
bool transport_handshake::send_waiting() noexcept {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(connection_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) {
      sending_failed_ = {errno, std::system_category()};
      unsent_ = io::buffer();
      break;
    }
    unsent_.consume(static_cast<std::size_t>(sent));
  }
  return true;
}

std::error_code transport_handshake::read_and_step() {
  std::array<std::byte, received_at_once> room;
  const ssize_t count = receive(connection_.get(), room, 0);
  if (count < 0 && errno == EAGAIN) return {};
  if (count < 0) return {errno, std::system_category()};
  if (count == 0) return protocol_->end_of_bytes();
  const auto failed = shake_hands(std::span(room).first(static_cast<std::size_t>(count)));
  if (failed) return failed;
  if (!count_held(protocol_->held_by_handshake())) return io::errc::memory_limit;
  return {};
}

std::error_code transport_handshake::shake_hands(std::span<const std::byte> received) {
  protocol_->feed(received);
  if (protocol_->handshake() == layer::status::failed) return protocol_->why().code;
  protocol_->keep_unread();
  return {};
}

// False if the memory limit has no room for that.
bool transport_handshake::count_held(std::size_t held) noexcept {
  return group_.count_held_by_handshake(std::exchange(counted_, held), held);
}

}  // namespace gyre::net::detail
