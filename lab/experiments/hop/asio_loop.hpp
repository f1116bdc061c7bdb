// SPDX-License-Identifier: Apache-2.0
// boost::asio as a contender of hop: an io_context per thread, with the concurrency hint 1. A post
// by a loop's thread takes its memory from that thread's recycling allocator, so a hop allocates
// nothing.
#pragma once

#include <lab/experiments/hop/workload.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <cstdint>
#include <optional>

namespace lab::hop {

class asio_loop {
 public:
  using token = hop::token;

  void run() { context_.run(); }
  void stop() { context_.stop(); }

  void send(token& passed) {
    boost::asio::post(context_, [&passed] { passed.arrive(); });
  }

  std::optional<std::uint64_t> wakeups() const { return std::nullopt; }

 protected:
  boost::asio::io_context context_{1};

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_running_{
      context_.get_executor()};
};

}  // namespace lab::hop
