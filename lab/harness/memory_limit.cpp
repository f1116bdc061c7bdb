// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/memory_limit.hpp>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

namespace lab {

memory_limit* memory_limit::current_ = nullptr;

memory_limit::memory_limit(std::uint64_t mebibytes, exit_handler on_exceeded)
    : on_exceeded_(std::move(on_exceeded)), mebibytes_(mebibytes) {
  getrlimit(RLIMIT_DATA, &before_);
  const rlimit wanted{mebibytes << 20, before_.rlim_max};
  if (setrlimit(RLIMIT_DATA, &wanted) != 0) {
    throw std::system_error(errno, std::system_category(), "cannot limit the memory");
  }
  current_ = this;
  terminate_before_ = std::set_terminate(on_terminate);
}

memory_limit::~memory_limit() {
  std::set_terminate(terminate_before_);
  setrlimit(RLIMIT_DATA, &before_);
  current_ = nullptr;
}

void memory_limit::exceeded() {
  // The first thread reports; other threads whose allocations fail wait for the process to end.
  while (over_.test_and_set()) pause();
  setrlimit(RLIMIT_DATA, &before_);
  const std::chrono::duration<double> lived = clock::now() - began_;
  std::array<char, 80> message{};
  std::snprintf(message.data(), message.size(), "out of memory after %.2f s with %llu MiB",
                lived.count(), static_cast<unsigned long long>(mebibytes_));
  on_exceeded_(message.data());
  std::_Exit(exit_status);
}

void memory_limit::on_terminate() {
  try {
    if (const std::exception_ptr problem = std::current_exception()) {
      std::rethrow_exception(problem);
    }
  } catch (const std::bad_alloc&) {
    current_->exceeded();
  } catch (...) {
    current_->terminate_before_();
  }
  current_->terminate_before_();
  std::abort();
}

}  // namespace lab
