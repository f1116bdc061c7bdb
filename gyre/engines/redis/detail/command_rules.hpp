// SPDX-License-Identifier: Apache-2.0
// command_rule: which commands of Redis may share a connection, and which need one of their own.
#pragma once

#include <gyre/io/buffer.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::redis::detail {

enum class command_rule : std::uint8_t {
  shared,        ///< the command may share the connection
  own,           ///< changes the state of the connection, such as SELECT and WATCH
  waiting,       ///< may wait in the server, such as BLPOP: as `own`, and the reply may come late
  refused,       ///< the command would change the protocol, such as MONITOR
  by_arguments,  ///< depends on the arguments: see rule_of_written()
};

/// The rule of a command by its name, in any case.
command_rule rule_of_name(std::string_view name) noexcept;
/// The rule of a complete command, as it is sent; never by_arguments.
command_rule rule_of_written(std::string_view command) noexcept;

template <class Command>
command_rule rule_of(const Command& command) {
  const command_rule rule = rule_of_name(command.name());
  if (rule != command_rule::by_arguments) return rule;
  io::buffer written;
  command.write(written);
  return rule_of_written(written.text());
}

/// Reads the arguments of a command as it is sent, the name first.
class argument_reader {
 public:
  explicit argument_reader(std::string_view command) noexcept;

  std::optional<std::string_view> next() noexcept;

 private:
  std::string_view unread_;
};

}  // namespace gyre::redis::detail
