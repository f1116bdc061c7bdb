// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http1_client_stream.hpp>

#include <gyre/io/buffer.hpp>
#include <gyre/io/received.hpp>

namespace gyre::http::detail {
namespace {

constexpr const char* sending_request = "sending the request";

}  // namespace

task<> http1_client_stream::send(std::span<const std::byte> bytes, const request_clock& clock,
                                 std::chrono::nanoseconds limit) {
  while (!bytes.empty()) {
    auto write_task =
        connection_->write_some(bytes, clock, clock.expiry_of(limit), sending_request);
    try {
      const std::size_t count = co_await std::move(write_task);
      bytes = bytes.subspan(count);
    } catch (...) {
      has_send_failed_ = true;
      throw;
    }
  }
}

task<bool> http1_client_stream::allows_websocket(const request_clock& /*clock*/,
                                                 steady_time /*expiry*/) {
  co_return false;
}

task<> http1_client_stream::send_head(message content, const request_clock& clock,
                                      std::chrono::nanoseconds limit) {
  std::string head = make_request_head(content.request, content.route, content.framing);
  head += content.body;
  task<> send_task = send(std::as_bytes(std::span(head)), clock, limit);
  co_await std::move(send_task);
}

task<> http1_client_stream::send_body(message_writer& framing, std::span<const std::byte> bytes,
                                      const request_clock& clock, std::chrono::nanoseconds limit) {
  if (!framing.is_chunked()) return send(bytes, clock, limit);
  chunk_.assign(framing.format_chunk_header(bytes.size()));
  chunk_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()).append("\r\n");
  return send(std::as_bytes(std::span(chunk_)), clock, limit);
}

task<> http1_client_stream::end_body(const message_writer& framing, const http::fields& trailers,
                                     const request_clock& clock, std::chrono::nanoseconds limit) {
  chunk_.clear();
  framing.append_end(chunk_, trailers.text());
  return send(std::as_bytes(std::span(chunk_)), clock, limit);
}

task<bool> http1_client_stream::receive(const request_clock& clock, steady_time expiry,
                                        const char* phase) {
  auto receive_task = connection_->receive(clock, expiry, phase);
  const io::received bytes = co_await std::move(receive_task);
  connection_->keep(bytes);
  co_return !bytes.empty();
}

void http1_client_stream::give_back(std::optional<std::chrono::seconds> idle_limit) noexcept {
  if (!connection_->input.empty()) return;
  connection_->input = io::buffer({.prepend = 0});  // an idle connection holds no memory
  connection_.give_back(idle_limit ? duration(*idle_limit) : duration::max());
}

}  // namespace gyre::http::detail
