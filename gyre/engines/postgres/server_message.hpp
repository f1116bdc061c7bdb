// SPDX-License-Identifier: Apache-2.0
// server_message: an error or a notice as PostgreSQL sends it.
#pragma once

#include <cstdint>
#include <string>

namespace gyre::postgres {

/// The fields of an error or a notice; those that the server left out are empty.
struct server_message {
  std::string severity = {};  ///< not translated: ERROR, FATAL, PANIC, WARNING, NOTICE, INFO …
  std::string sqlstate = {};  ///< the code, of five characters
  std::string message = {};
  std::string detail = {};
  std::string hint = {};
  std::string context = {};  ///< the functions in which it happened
  std::string schema = {};
  std::string table = {};
  std::string column = {};
  std::string data_type = {};
  std::string constraint = {};
  std::string routine = {};  ///< the function of the server's source that reports it
  /// The character of the statement, counted from 1, that it is about; 0: none.
  std::uint32_t position = 0;
};

}  // namespace gyre::postgres
