// SPDX-License-Identifier: Apache-2.0
// Guide, part 3: exceptions, and errors as values.
#include <gyre/sync/channel.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <expected>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

gyre::task<int> parse(std::string text) { co_return std::stoi(text); }

gyre::task<int> parse_or_zero(std::string text) {
  try {
    co_return co_await parse(std::move(text));
  } catch (const std::invalid_argument&) {
    co_return 0;
  }
}

gyre::task<> send_to_closed() {
  gyre::channel<int> numbers(8);
  numbers.close();
  std::expected<void, std::error_code> sent = co_await gyre::as_expected(numbers.send(1));
  if (!sent) std::cout << "not sent: " << sent.error().message() << '\n';
}

int main() {
  std::cout << gyre::sync_wait(parse_or_zero("12")) << '\n';
  std::cout << gyre::sync_wait(parse_or_zero("twelve")) << '\n';
  gyre::sync_wait(send_to_closed());
}
