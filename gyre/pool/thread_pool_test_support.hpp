// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests of pools.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/pool/thread_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::test {

inline std::string scheduler_name(const ::testing::TestParamInfo<scheduler>& of) {
  switch (of.param) {
    case scheduler::stealing: return "Stealing";
    case scheduler::blocking: return "Blocking";
    case scheduler::spinning: return "Spinning";
  }
  return "?";
}

/// Keeps a worker busy with a task, from the end of the constructor to end().
class busy_worker {
 public:
  explicit busy_worker(thread_pool& pool) {
    std::promise<void> begun;
    auto begin = begun.get_future();
    pool.post([end = end_.get_future(), begun = std::move(begun)]() mutable {
      begun.set_value();
      end.get();
    });
    begin.get();
  }
  void end() { end_.set_value(); }

 private:
  std::promise<void> end_;
};

/// The code of the std::system_error that `call` throws; none if it throws nothing.
template <class Call>
std::error_code error_of(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

struct counted_operation : operation {
  counted_operation()
      : operation([](operation& self) { ++static_cast<counted_operation&>(self).runs; }) {}
  std::atomic<int> runs = 0;
};

}  // namespace gyre::test
