// SPDX-License-Identifier: Apache-2.0
// handler: a function that responds to requests, in one of three forms; middleware wraps handlers.
//
//     server.get("/now", [](gyre::http::request&) { return gyre::http::response::text("now"); });
//     server.get("/soon", [](gyre::http::request&) -> gyre::task<gyre::http::response> {
//       co_await gyre::sleep_for(1s);
//       co_return gyre::http::response::text("soon");
//     });
//     server.get("/later", [&](gyre::http::request&, gyre::http::responder answer) {
//       workers.post([answer = std::move(answer)] {
//         answer.send(gyre::http::response::text("later"));
//       });
//     });
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::http {

/// Sends the response to one request at any later time. If the last copy is destroyed before a
/// response was sent, the client gets 500.
///
/// Thread-safety: any thread; copies may be used at the same time. The response is sent on the loop
/// of the connection.
/// Lifetime: may outlive the request and the connection, but not the loop. After the connection has
/// ended, send() does nothing.
/// Errors: none. The pointer passed to fail() must not be null.
class responder {
 public:
  explicit responder(completion<response> callback) noexcept : completion_(std::move(callback)) {}
  /// Sends the response. Later responses, and responses to an ended connection, are dropped.
  void send(response result) const { completion_.set_value(std::move(result)); }
  /// Sends 500, or the status of an http_error, as if the handler had thrown `error`.
  void fail(std::exception_ptr error) const { completion_.set_exception(std::move(error)); }

 private:
  completion<response> completion_;
};

/// The three forms of a handler: a function that returns a response, a coroutine, and a function
/// that sends its response through a responder, perhaps later and from another thread. A coroutine
/// keeps the request alive until it ends.
template <class Function>
concept handler_function = std::invocable<Function&, request&, responder> ||
                           requires(Function& function, request& request) {
                             { function(request) } -> std::convertible_to<response>;
                           } || requires(Function& function, request& request) {
                             { function(request) } -> std::same_as<task<response>>;
                           };

/// Stores a handler_function of any type.
///
/// Thread-safety: a server calls the function on the loop of each connection. Several loops call
/// the same object at the same time, so the function must protect its shared state. A coroutine
/// continues on the loop of its connection after each wait.
/// Lifetime: the server owns the function. Objects that the function refers to must live until
/// server::stop_async() has completed. For the lifetime of the request see http::request.
/// Errors: after an exception the client gets 500, and server::on_error() is called; after an
/// http_error the client gets its status. A coroutine whose client has disconnected is requested to
/// stop; if it then ends by operation_cancelled, nothing is sent.
/// Complexity: an ordinary function allocates nothing; a coroutine allocates its frame.
class handler {
 public:
  using ordinary = move_only_function<response(request&)>;
  using coroutine = move_only_function<task<response>(request&)>;
  using callback = move_only_function<void(request&, responder)>;

  template <handler_function Function>
    requires(!std::same_as<std::remove_cvref_t<Function>, handler>)
  // NOLINTNEXTLINE(google-explicit-constructor): routes take functions
  handler(Function function) : function_(wrap(std::move(function))) {}

  /// Calls the function; the call of each form is wrapped as a coroutine.
  task<response> operator()(request& request);

 private:
  friend detail::exchange;

  template <class Function>
  static auto wrap(Function function) {
    if constexpr (std::invocable<Function&, request&, responder>) {
      return callback(std::move(function));
    } else if constexpr (std::same_as<std::invoke_result_t<Function&, request&>, task<response>>) {
      return coroutine(std::move(function));
    } else {
      return ordinary(std::move(function));
    }
  }

  std::variant<ordinary, coroutine, callback> function_;
};

/// The remaining middleware and the handler, which a middleware calls by `next(request)`. Copyable.
///
/// Lifetime: valid as long as the request. May be called several times, one after the other.
/// Errors: the await throws the handler's exception, which the middleware may catch and convert to
/// a response.
class next_handler {
 public:
  task<response> operator()(request& request) const;
  /// Calls the rest like operator(), and returns the response that the server would send for an
  /// exception, after it was reported to server::on_error() if need be. So a middleware that adds
  /// fields adds them to the responses to errors, too.
  ///
  /// Errors: the await throws the exception of a handler whose client has left.
  task<response> respond(request& request) const;

 private:
  friend detail::exchange;
  using function = move_only_function<task<response>(request&, next_handler)>;
  next_handler(std::span<function* const> rest, handler& last) noexcept
      : rest_(rest.data()), rest_count_(rest.size()), last_(&last) {}

  // The type is no std::span, which since libstdc++ 13 needs complete parameter types of
  // `function`.
  function* const* rest_;
  std::size_t rest_count_;
  handler* last_;
};

/// A function that wraps handlers: it may respond itself, change the response, measure, or run code
/// before and after. For threads, lifetime and errors see handler.
using middleware = move_only_function<task<response>(request&, next_handler)>;

}  // namespace gyre::http
