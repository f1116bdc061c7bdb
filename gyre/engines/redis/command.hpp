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

/// How a call stores an argument until it is sent: texts that are lvalues as views, numbers and
/// temporaries by value, and other lvalues by reference.
template <class Argument>
struct stored_argument {
  using value = std::remove_cvref_t<Argument>;
  static constexpr bool is_copied =
      !std::is_lvalue_reference_v<Argument> || std::is_arithmetic_v<value>;
  using reference = std::conditional_t<std::convertible_to<Argument, std::string_view>,
                                       std::string_view, const value&>;
  using type = std::conditional_t<is_copied, value, reference>;
};
template <class Argument>
using stored_argument_t = typename stored_argument<Argument>::type;

}  // namespace detail

/// A command whose reply is read as a Result.
///
/// Lifetime: arguments that are neither temporaries nor numbers must outlive it.
template <class Result, class... Stored>
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
  std::tuple<Stored...> arguments_;
};

/// Makes a command: `command<std::int64_t>("INCR", "visits")`. `name` must outlive it.
template <class Result = reply, command_argument... Arguments>
[[nodiscard]] auto command(std::string_view name, Arguments&&... arguments) {
  return prepared_command<Result, detail::stored_argument_t<Arguments>...>(
      name, std::forward<Arguments>(arguments)...);
}

}  // namespace gyre::redis
