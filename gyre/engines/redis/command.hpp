// SPDX-License-Identifier: Apache-2.0
// command: a command of Redis with its arguments and the type of its reply, for transactions.
//
//     auto [old, now] = co_await cache.transaction(
//         gyre::redis::command<std::optional<std::string>>("GET", "visits"),
//         gyre::redis::command<std::int64_t>("INCR", "visits"));
#pragma once

#include <gyre/engines/redis/argument_traits.hpp>
#include <gyre/engines/redis/reply.hpp>
#include <gyre/io/buffer.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre::redis {

namespace detail {

/// How a call keeps an argument until it is sent: texts that are lvalues as views, other lvalues by
/// reference, and temporaries as they are.
template <class Argument>
struct kept_argument {
  using type = std::conditional_t<
      std::is_lvalue_reference_v<Argument>,
      std::conditional_t<std::convertible_to<Argument, std::string_view>, std::string_view,
                         const std::remove_reference_t<Argument>&>,
      std::remove_cvref_t<Argument>>;
};
template <class Argument>
using kept_argument_t = typename kept_argument<Argument>::type;

}  // namespace detail

/// A command whose reply is read as a Result.
///
/// Lifetime: arguments that are no temporaries must outlive it.
template <class Result, class... Kept>
class prepared_command {
 public:
  using result_type = Result;

  template <class... Arguments>
  explicit prepared_command(std::string_view name, Arguments&&... arguments)
      : name_(name), arguments_(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  /// Appends it. Throws std::bad_alloc.
  void write(io::buffer& output) const {
    std::apply([&](const auto&... arguments) { write_command(output, name_, arguments...); },
               arguments_);
  }

 private:
  std::string_view name_;
  std::tuple<Kept...> arguments_;
};

/// Makes a command: `command<std::int64_t>("INCR", "visits")`. `name` must outlive it.
template <class Result = reply, command_argument... Arguments>
[[nodiscard]] auto command(std::string_view name, Arguments&&... arguments) {
  return prepared_command<Result, detail::kept_argument_t<Arguments>...>(
      name, std::forward<Arguments>(arguments)...);
}

}  // namespace gyre::redis
