// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/handler.hpp>

#include <gyre/task/from_callback.hpp>

#include <utility>
#include <variant>

namespace gyre::http {
namespace {

task<response> answer_at_once(handler::ordinary& function, request& from) {
  co_return function(from);
}

task<response> answer_later(handler::callback& function, request& from) {
  auto waiting = from_callback<response>([&function, &from](completion<response> done) {
    function(from, responder(std::move(done)));
  });
  co_return co_await std::move(waiting);
}

}  // namespace

task<response> handler::operator()(request& from) {
  if (auto* own = std::get_if<coroutine>(&function_)) return (*own)(from);
  if (auto* own = std::get_if<ordinary>(&function_)) return answer_at_once(*own, from);
  return answer_later(std::get<callback>(function_), from);
}

task<response> next_handler::operator()(request& from) const {
  if (rest_.empty()) return (*last_)(from);
  return rest_.front()(from, next_handler(rest_.subspan(1), *last_));
}

}  // namespace gyre::http
