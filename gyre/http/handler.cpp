// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/handler.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/task/from_callback.hpp>

#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <variant>

namespace gyre::http {
namespace {

task<response> respond_at_once(handler::ordinary& function, request& request) {
  co_return function(request);
}

task<response> respond_later(handler::callback& function, request& request) {
  auto wait = from_callback<response>([&function, &request](completion<response> callback) {
    function(request, responder(std::move(callback)));
  });
  co_return co_await std::move(wait);
}

}  // namespace

task<response> handler::operator()(request& request) {
  if (auto* function = std::get_if<coroutine>(&function_)) return (*function)(request);
  if (auto* function = std::get_if<ordinary>(&function_))
    return respond_at_once(*function, request);
  return respond_later(std::get<callback>(function_), request);
}

task<response> next_handler::operator()(request& request) const {
  if (rest_count_ == 0) return (*last_)(request);
  const std::span after_first(rest_ + 1, rest_count_ - 1);
  return (*rest_[0])(request, next_handler(after_first, *last_));
}

task<response> next_handler::respond(request& request) const {
  std::exception_ptr error;
  try {
    task<response> rest = (*this)(request);
    co_return co_await std::move(rest);
  } catch (...) {
    error = std::current_exception();
  }
  std::optional<response> result = request.owner_->response_to(error);
  if (!result) std::rethrow_exception(std::move(error));
  co_return std::move(*result);
}

}  // namespace gyre::http
