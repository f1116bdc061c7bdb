// SPDX-License-Identifier: Apache-2.0
// The example in the comment of task's adapter of senders.
#include <gyre/task/adapter/stdexec.hpp>

#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

namespace stdexec_test {
namespace {

namespace ex = stdexec;

std::size_t hash(const std::string& text) { return std::hash<std::string>()(text); }

// clang-format off
// gyre/task/adapter/stdexec.hpp
gyre::task<std::size_t> hash_on(gyre::executor& pool, std::string text) {
  auto hashing = ex::then(ex::schedule(gyre::as_scheduler(pool)), [&] { return hash(text); });
  co_return co_await gyre::from_sender(std::move(hashing));
}
// clang-format on

TEST(SenderExamples, AdapterHashes) {
  gyre::test::thread_executor pool;
  gyre::test::thread_executor main_loop;
  auto [value] = ex::sync_wait(gyre::as_sender(main_loop, hash_on(pool, "gyre"))).value();
  EXPECT_EQ(value, hash("gyre"));
}

}  // namespace
}  // namespace stdexec_test
