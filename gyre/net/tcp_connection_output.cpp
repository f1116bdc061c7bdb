// SPDX-License-Identifier: Apache-2.0
// How a connection sends: at once if it can, and what the kernel does not take waits in a queue.
#include <gyre/io/backend.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <span>
#include <utility>

namespace gyre::net {

std::size_t tcp_connection::pending_output() const noexcept {
  return extra_ == nullptr ? 0 : extra_->output.size();
}

// How much the kernel took of what `asked` names; if that failed, it can be sent on no more.
std::size_t tcp_connection::try_to_send(io::request& asked) noexcept {
  std::optional<io::result> made = io().start(asked);
  if (!made) made = io().cancel(asked);
  if (!made) return 0;
  if (!*made) {
    sending_failed(made->error());
    return 0;
  }
  count_sent(made->count());
  return made->count();
}

void tcp_connection::count_sent(std::size_t bytes) noexcept {
  bytes_sent_ += bytes;
  group_->count_sent(bytes);
}

bool tcp_connection::all_sent() noexcept {
  if (group_->handlers().write_complete) call_later(write_complete_due);
  return true;
}

bool tcp_connection::send(std::span<const std::byte> bytes) {
  if (!can_send()) return false;
  if (bytes.empty()) return true;
  if (pending_output() == 0) [[likely]] {
    io::write_request writing(*this, bytes, nullptr);
    const std::size_t taken = try_to_send(writing);
    if (taken == bytes.size()) [[likely]]
      return all_sent();
    if (!can_send()) return false;
    bytes = bytes.subspan(taken);
  }
  return wait_with(bytes.size(), [bytes](io::output_queue& output) { output.append(bytes); });
}

bool tcp_connection::send(io::buffer&& bytes) {
  if (!can_send()) return false;
  if (bytes.empty()) return true;
  if (pending_output() == 0) {
    io::write_request writing(*this, bytes.bytes(), nullptr);
    bytes.consume(try_to_send(writing));
    if (bytes.empty()) {
      bytes.clear();
      return all_sent();
    }
    if (!can_send()) return false;
  }
  return wait_with(bytes.size(),
                   [&bytes](io::output_queue& output) { output.append(std::move(bytes)); });
}

bool tcp_connection::send(std::span<const std::span<const std::byte>> pieces) {
  if (!can_send()) return false;
  std::size_t left = 0;
  for (const auto piece : pieces) left += piece.size();
  if (left == 0) return true;
  std::size_t taken = 0;
  if (pending_output() == 0) {
    std::array<iovec, 64> vectors;
    const std::size_t count = std::min(pieces.size(), vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
      // The kernel only reads it.
      vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    io::gather_request writing(*this, std::span(vectors).first(count), nullptr);
    taken = try_to_send(writing);
    if (!can_send()) return false;
    left -= taken;
    if (left == 0) return all_sent();
  }
  return wait_with(left, [pieces, taken](io::output_queue& output) mutable {
    for (const auto piece : pieces) {
      const std::size_t skipped = std::min(taken, piece.size());
      taken -= skipped;
      if (skipped < piece.size()) output.append(piece.subspan(skipped));
    }
  });
}

// Queues `more` bytes. Where that is too much, or memory is short, the connection ends: what follows
// in its stream would be wrong.
template <class Append>
bool tcp_connection::wait_with(std::size_t more, Append&& append) noexcept {
  const connection_options& limits = group_->options();
  if (more > limits.output_limit || pending_output() > limits.output_limit - more) {
    end(std::make_error_code(std::errc::no_buffer_space), ending::reset);
    return false;
  }
  try {
    append(extra().output);
  } catch (const std::bad_alloc&) {
    end(std::make_error_code(std::errc::not_enough_memory), ending::reset);
    return false;
  }
  if (!extra_->writing.under_way()) flush();
  if (!can_send()) return false;
  if (!above_high_water_ && pending_output() >= limits.high_water) {
    above_high_water_ = true;
    tell_of_water(high_water_due, low_water_due);
  }
  return true;
}

// Writes what waits, as long as the kernel takes it at once.
void tcp_connection::flush() noexcept {
  detail::connection_extra& waiting = *extra_;
  while (!waiting.output.empty()) {
    const std::size_t count = waiting.output.gather(waiting.pieces);
    waiting.writing.pieces = std::span(waiting.pieces).first(count);
    const std::optional<io::result> made = io().start(waiting.writing);
    if (!made) return;
    if (!*made) return sending_failed(made->error());
    taken(made->count());
  }
  flushed();
}

void tcp_connection::on_written(io::request& asked, io::result what) {
  auto& self = static_cast<tcp_connection&>(asked.target());
  self.from_loop([&self, what] {
    if (!what) return self.sending_failed(what.error());
    self.taken(what.count());
    self.flush();
  });
}

void tcp_connection::taken(std::size_t bytes) noexcept {
  count_sent(bytes);
  extra_->output.consume(bytes);
  if (above_high_water_ && pending_output() <= group_->low_water()) {
    above_high_water_ = false;
    tell_of_water(low_water_due, high_water_due);
  }
}

// The two take turns: what nobody was told of yet has become untrue, and needs no call.
void tcp_connection::tell_of_water(std::uint8_t due, std::uint8_t other) noexcept {
  if (due_ & other) {
    due_ = static_cast<std::uint8_t>(due_ & ~other);
  } else {
    call_later(due);
  }
}

// Nothing waits any more.
void tcp_connection::flushed() noexcept {
  if (phase_ == phase::flushing) return linger();
  if (shut_) end_sending();
  if (phase_ == phase::open) static_cast<void>(all_sent());
}

// The peer may have answered before it reset the connection, or closed it without having read all:
// the answer is still there, and reading ends the connection. Where it does not (of a Unix socket
// only the other direction may be shut), the timer does.
void tcp_connection::sending_failed(std::error_code why) noexcept {
  if (phase_ != phase::open || paused_ || peer_done_) return end(why, ending::in_order);
  why_ = why;
  shut_ = told_ = true;
  due_ = 0;
  if (extra_ != nullptr) extra_->output.clear();
  try {
    start_timer(group_->options().close_timeout);
  } catch (const std::bad_alloc&) {
    end(why, ending::in_order);
  }
}

}  // namespace gyre::net
