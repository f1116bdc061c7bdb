// SPDX-License-Identifier: Apache-2.0
// Support for tests: the error or the message with which a call fails, for a coroutine that awaits
// the call. gyre::test::error_of() of awaited_error.hpp blocks its thread instead.
#pragma once

#include <gyre/task/task.hpp>

#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::test::calls {

/// The error of a call; empty if it succeeds.
template <class Call>
task<std::error_code> error_of(Call call) {
  try {
    static_cast<void>(co_await std::move(call));
  } catch (const std::system_error& error) {
    co_return error.code();
  }
  co_return std::error_code();
}

/// The message of the exception of a call.
template <class Call>
task<std::string> message_of(Call call) {
  try {
    static_cast<void>(co_await std::move(call));
  } catch (const std::exception& error) {
    co_return error.what();
  }
  co_return "no exception";
}

}  // namespace gyre::test::calls
