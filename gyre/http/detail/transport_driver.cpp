// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/transport_driver.hpp>

#include <gyre/http/detail/spare_buffers.hpp>

#include <utility>

namespace gyre::http::detail {

template <class Face>
void transport_driver<Face>::leave() noexcept {
  server_stop_.reset();
  this->abandon();
}

template <class Face>
task<> transport_driver<Face>::wait_for_input() {
  const wait_scope waits(*this);
  if (auto reading = transport_->begin_wait(*this)) {
    co_await std::move(*reading);
  } else {
    co_await wake_.wait();
  }
}

template <class Face>
void transport_driver<Face>::wake() noexcept {
  if (!is_waiting_) return;
  transport_->interrupt();
  wake_.set();
}

template <class Face>
io::buffer& transport_driver<Face>::output() {
  if (queue_.empty()) take_spare_buffer(queue_);
  return queue_;
}

template <class Face>
void transport_driver<Face>::flush(std::span<const std::byte> bytes) {
  if (has_failed_) return;
  if (!bytes.empty()) output().append(bytes);
  if (!queue_.empty()) on_output();
}

template <class Face>
bool transport_driver<Face>::schedule_flush() noexcept {
  on_output();
  return true;
}

template <class Face>
std::optional<task<>> transport_driver<Face>::start_send() {
  std::swap(queue_, sending_);
  return transport_->send(sending_.bytes());
}

template <class Face>
void transport_driver<Face>::note_sent() noexcept {
  keep_spare_buffer(sending_);
  this->on_output_taken();
}

template <class Face>
task<> transport_driver<Face>::send_queue() {
  if (auto rest = start_send()) co_await std::move(*rest);
  note_sent();
}

template <class Face>
void transport_driver<Face>::fail_output() noexcept {
  has_failed_ = true;
  queue_.clear();
}

template class transport_driver<called_websocket>;
template class transport_driver<websocket_core>;

}  // namespace gyre::http::detail
