// SPDX-License-Identifier: Apache-2.0
// translate_error: turns errors that the functions of the schema raise into work::errc.
#pragma once

#include <gyre/engines/postgres/error.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <utility>

namespace gyre::work::detail {

/// Throws the error of work::errc that `error` stands for, or else `error` itself.
[[noreturn]] void throw_translated(const postgres::server_error& error);

/// Awaits a statement, and translates its error.
template <awaitable Statement>
task<task_result_t<Statement>> translated(Statement statement) {
  try {
    co_return co_await std::move(statement);
  } catch (const postgres::server_error& error) {
    throw_translated(error);
  }
}

}  // namespace gyre::work::detail
