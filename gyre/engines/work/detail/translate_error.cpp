// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/detail/translate_error.hpp>

#include <gyre/engines/work/error.hpp>

#include <string_view>
#include <system_error>

namespace gyre::work::detail {

void throw_translated(const postgres::server_error& error) {
  const std::string_view state = error.sqlstate();
  const auto is_of_schema = [&] {
    return error.message().message.find("work.") != std::string::npos ||
           error.message().message.find("\"work\"") != std::string::npos;
  };
  if (state == "GW001") throw std::system_error(errc::queue_full, error.message().message);
  if (state == "GW002" || state == "GW003") {
    throw std::system_error(errc::attempt_taken_over, error.message().message);
  }
  // The codes are invalid_schema_name, undefined_table and undefined_function.
  if ((state == "3F000" || state == "42P01" || state == "42883") && is_of_schema()) {
    throw std::system_error(errc::schema_missing, error.message().message);
  }
  throw error;
}

}  // namespace gyre::work::detail
