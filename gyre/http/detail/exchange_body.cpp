// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/from_callback.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

// Streamed bytes that wait for the handler; then the peer must wait.
constexpr std::size_t stream_window = std::size_t{64} << 10;

}  // namespace

void exchange::send_continue() {
  if (!std::exchange(continue_due_, false)) return;
  connection_->output().append("HTTP/1.1 100 Continue\r\n\r\n");
}

errc exchange::receive_body(io::input& in) {
  const bool streamed = is_streamed();
  const std::size_t before = body_.size();
  while (body_open_ && !in.empty()) {
    if (streamed && body_.size() >= stream_window) break;
    continue_due_ = false;  // the client has not waited
    if (head_.framing.body == body_kind::length) {
      std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, in.size()));
      if (streamed) {
        count = std::min(count, stream_window);
      } else if (body_.empty()) {
        // Not more than has come: a client may announce much, and send nothing.
        body_.reserve(
            std::min<std::uint64_t>(remaining_, std::max<std::size_t>(count, first_reservation)));
      }
      body_.append(in.take(count));
      received_ += count;
      remaining_ -= count;
      if (remaining_ == 0) body_open_ = false;
      continue;
    }
    const std::size_t first_trailer = trailers_.size();
    const auto piece = decoder_.next(in, shard_->core().head_limits, trailers_);
    if (!piece) return piece.error();
    if (trailers_.size() != first_trailer) {
      for (const field& each : trailers_) trailer_fields_.add(each.name, each.value);
      trailers_.assign(trailer_fields_.begin(), trailer_fields_.end());
      request_.trailers_ = field_list(trailers_);
    }
    received_ += piece->data.size();
    if (received_ > body_limit()) return errc::body_too_large;
    body_.append(piece->data);
    if (piece->is_last) body_open_ = false;
    if (piece->data.empty() && !piece->is_last) break;
  }
  if (streamed && (body_.size() != before || !body_open_)) wake(reader_waits_);
  return {};
}

bool exchange::is_waiting_for_handler() const noexcept {
  return is_streamed() && body_.size() >= stream_window;
}

void exchange::fail_body(errc error) {
  body_error_ = error;
  body_open_ = false;
  close_ = true;
  wake(reader_waits_);
}

void exchange::on_peer_ended() {
  ++holds_;
  if (body_open_ && upgraded_) {
    body_open_ = false;
    wake(reader_waits_);
  } else if (body_open_) {
    fail_body(errc::truncated);
  }
  const bool runs = (handler_ || stream_) && !ended_;
  if (runs && !shard_->core().options.serve_half_closed) stop_source_.request_stop();
  release_hold();
}

void exchange::wake(waiter& waiting) noexcept {
  if (!waiting) return;
  const completion<void> done = *std::exchange(waiting, std::nullopt);
  done.set_value();
}

task<std::optional<std::span<const std::byte>>> exchange::next_chunk() {
  if (!is_streamed()) {
    throw std::logic_error(
        "http::request::next_chunk: the route has no streamed_body: see route_options");
  }
  chunk_.clear();
  while (body_.empty()) {
    if (body_error_ != errc{}) throw std::system_error(body_error_, "http::request::next_chunk");
    if (!body_open_) co_return std::nullopt;
    if (reader_waits_) {
      throw std::system_error(make_error_code(io::errc::busy), "http::request::next_chunk");
    }
    if (continue_due_) {
      send_continue();
      if (!connection_->in_turn()) connection_->flush();
    }
    auto waiting = from_callback<void>([this](completion<void> done) {
      reader_waits_.emplace(std::move(done));
      connection_->want_body();
    });
    struct forget {
      exchange* self;
      ~forget() { self->reader_waits_.reset(); }  // after a stop
    } const guard{this};
    co_await std::move(waiting);
  }
  swap(chunk_, body_);
  if (connection_ != nullptr) connection_->resume_input();
  co_return chunk_.bytes();
}

}  // namespace gyre::http::detail
