// SPDX-License-Identifier: Apache-2.0
// script: a Lua script that Redis carries out as one command, sent once and then named by its hash.
//
//     const gyre::redis::script add_if_there(
//         "if redis.call('EXISTS', KEYS[1]) == 0 then return nil end "
//         "return redis.call('INCRBY', KEYS[1], ARGV[1])");
//
//     auto sum = co_await cache.evaluate<std::optional<int>>(add_if_there, "visits", 10);
#pragma once

#include <gyre/engines/redis/argument_traits.hpp>
#include <gyre/engines/redis/command.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>

namespace gyre::redis {

/// A script and its SHA-1, by which a server finds the script that it has seen before.
///
/// Thread-safety: a constant.
class script {
 public:
  /// Throws std::system_error, if OpenSSL refuses SHA-1, and std::bad_alloc.
  explicit script(std::string text);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Returns the SHA-1 in hexadecimal digits.
  [[nodiscard]] const std::string& hash() const noexcept { return hash_; }

 private:
  std::string text_;
  std::string hash_;
};

namespace detail {

/// The command EVALSHA, or EVAL with the text of the script.
template <class Keys, class... Arguments>
class evaluation {
 public:
  evaluation(const script& code, const Keys& keys, const std::tuple<Arguments...>& arguments,
             bool sends_text) noexcept
      : code_(code), keys_(keys), arguments_(arguments), sends_text_(sends_text) {}

  std::string_view name() const noexcept { return sends_text_ ? "EVAL" : "EVALSHA"; }
  void write(io::buffer& output) const {
    const std::string& source = sends_text_ ? code_.text() : code_.hash();
    const std::size_t key_count = argument_traits<Keys>::count(keys_);
    std::apply(
        [&](const auto&... texts) {
          write_command(output, name(), source, key_count, keys_, texts...);
        },
        arguments_);
  }

 private:
  const script& code_;
  const Keys& keys_;
  const std::tuple<Arguments...>& arguments_;
  bool sends_text_;
};

}  // namespace detail

}  // namespace gyre::redis
