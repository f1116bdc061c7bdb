// SPDX-License-Identifier: Apache-2.0
// Senders that a coroutine awaits, and tasks that become senders.
#include <gyre/task/adapter/stdexec.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/senders.hpp>

#include <utility>

namespace {

namespace ex = stdexec;
using gyre::task;

void names_the_task(gyre::executor& target, task<int> work) {
  // expect: hand it over by std::move(task)
  static_cast<void>(gyre::as_sender(target, work));
}

void passes_a_lambda(gyre::executor& target) {
  // expect: call it, as in lambda()
  static_cast<void>(gyre::as_sender(target, []() -> task<> { co_return; }));
}

void awaits_values_of_different_types() {
  auto sender = gyre::test::completes_inline<ex::set_value_t(int), ex::set_value_t()>(
      [](auto receiver) { ex::set_value(std::move(receiver)); });
  // expect: apply into_variant() to it
  static_cast<void>(gyre::from_sender(std::move(sender)));
}

}  // namespace
