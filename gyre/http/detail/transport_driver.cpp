// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/transport_driver.hpp>

#include <gyre/http/detail/spare_buffers.hpp>

#include <utility>

namespace gyre::http::detail {

transport_driver::transport_driver(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                                   websocket_role role, const websocket_options& options,
                                   websocket_agreement agreement, inplace_stop_token server_stop,
                                   websocket_face face)
    : websocket_driver(loop.now(), role, options, std::move(agreement), face),
      loop_(loop),
      transport_(std::move(transport)),
      server_stop_token_(server_stop) {
  if (server_stop.stop_possible()) server_stop_.emplace(server_stop, begin_stop{this});
}

void transport_driver::leave() noexcept {
  server_stop_.reset();
  abandon();
}

task<> transport_driver::wait_for_input() {
  const wait_scope waits(*this);
  if (auto reading = transport_->begin_wait(*this)) {
    co_await std::move(*reading);
  } else {
    co_await wake_.wait();
  }
}

void transport_driver::wake() noexcept {
  if (!is_waiting_) return;
  transport_->interrupt();
  wake_.set();
}

io::buffer& transport_driver::output() {
  if (queue_.empty()) take_spare_buffer(queue_);
  return queue_;
}

void transport_driver::flush(std::span<const std::byte> bytes) {
  if (has_failed_) return;
  if (!bytes.empty()) output().append(bytes);
  if (!queue_.empty()) on_output();
}

bool transport_driver::schedule_flush() noexcept {
  on_output();
  return true;
}

std::optional<task<>> transport_driver::start_send() {
  std::swap(queue_, sending_);
  return transport_->send(sending_.bytes());
}

void transport_driver::note_sent() noexcept {
  keep_spare_buffer(sending_);
  on_output_taken();
}

task<> transport_driver::send_queue() {
  if (auto rest = start_send()) co_await std::move(*rest);
  note_sent();
}

void transport_driver::fail_output() noexcept {
  has_failed_ = true;
  queue_.clear();
}

}  // namespace gyre::http::detail
