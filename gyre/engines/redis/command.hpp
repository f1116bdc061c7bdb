// SPDX-License-Identifier: Apache-2.0
// command: a Redis command with its arguments and the type of its reply, for transactions.
//
//     auto [old, now] = co_await cache.transaction(
//         gyre::redis::command<std::optional<std::string>>("GET", "visits"),
//         gyre::redis::command<std::int64_t>("INCR", "visits"));
#pragma once

#include <gyre/engines/detail/kept_argument.hpp>
#include <gyre/engines/redis/argument_traits.hpp>
#include <gyre/engines/redis/reply.hpp>
#include <gyre/io/buffer.hpp>

#include <string_view>
#include <tuple>
#include <utility>

namespace gyre::redis {

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
  /// Appends the command. Throws std::bad_alloc.
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
  return prepared_command<Result, engines::detail::kept_argument_t<Arguments>...>(
      name, std::forward<Arguments>(arguments)...);
}

}  // namespace gyre::redis
