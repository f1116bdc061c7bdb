// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/batch.hpp>

#include <string>

namespace gyre::postgres {
namespace {

std::string text_of(std::size_t index, std::string_view statement) {
  return ("statement at index " + std::to_string(index) + ", ").append(statement);
}

}  // namespace

batch_error::batch_error(std::size_t index, errc code, server_message message,
                         std::string_view statement)
    : server_error(code, std::move(message), text_of(index, statement)), index_(index) {}

}  // namespace gyre::postgres
