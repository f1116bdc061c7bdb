// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/client.hpp>

#include <gyre/base/detail/error_code_of.hpp>
#include <gyre/http/detail/client_call.hpp>
#include <gyre/http/detail/client_core.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_when.hpp>

#include <exception>
#include <stdexcept>

namespace gyre::http {

namespace detail {
namespace {

using gyre::detail::error_code_of;

std::error_code code_for_callback(const std::exception_ptr& error, bool is_closed) {
  const std::error_code code =
      error_code_of(error, std::make_error_code(std::errc::state_not_recoverable));
  const bool was_stopped = code == std::make_error_code(std::errc::operation_canceled);
  return is_closed && was_stopped ? make_error_code(io::errc::closed) : code;
}

task<> call_back(std::shared_ptr<client_core> core, client_request request,
                 client::callback callback) {
  auto send_task = as_result(stop_when(
      client_call::run(core, std::move(request), client_call::body::whole), core->closing()));
  auto result = co_await std::move(send_task);
  if (core->abandoned) co_return;
  if (result) {
    callback(std::move(*result));
  } else {
    callback(std::unexpected(code_for_callback(result.error(), core->is_closed())));
  }
}

}  // namespace

task<client_response> get_alone(client_request request, client_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  auto* loop = dynamic_cast<event_loop*>(context.where);
  if (loop == nullptr) loop = event_loop::current();
  if (loop == nullptr) {
    throw std::system_error(make_error_code(io::errc::wrong_thread),
                            "http::get: the coroutine runs on no loop");
  }
  client single_client(*loop, std::move(options));
  task<client_response> send_task = single_client.send(std::move(request));
  client_response result = co_await std::move(send_task);
  co_return result;
}

}  // namespace detail

std::shared_ptr<detail::client_core> detail::core_of(const client& owner) noexcept {
  return owner.core_;
}

client::client(event_loop& loop, client_options options)
    : core_(std::make_shared<detail::client_core>(loop, std::move(options))) {}
client::client(client&& other) noexcept = default;
client& client::operator=(client&& other) noexcept {
  client replacement(std::move(other));
  std::swap(core_, replacement.core_);
  return *this;
}
client::~client() {
  if (core_ == nullptr) return;
  core_->abandoned = true;
  core_->close();
}

task<client_response> client::send(client_request request) {
  return detail::client_call::run(core_, std::move(request), detail::client_call::body::whole);
}

task<client_response> client::stream(client_request request) {
  return detail::client_call::run(core_, std::move(request), detail::client_call::body::streamed);
}

void client::send(client_request request, callback function) {
  if (core_ == nullptr) throw std::logic_error("http::client::send: it was moved from");
  spawn(core_->loop(), detail::call_back(core_, std::move(request), std::move(function)),
        {.name = "http::client::send"});
}

cookie_jar& client::cookies() {
  if (core_ == nullptr) throw std::logic_error("http::client::cookies: it was moved from");
  return core_->cookies;
}
client_metrics client::metrics() const noexcept {
  return core_ != nullptr ? core_->metrics() : client_metrics();
}
void client::close() noexcept {
  if (core_ != nullptr) core_->close();
}

}  // namespace gyre::http
