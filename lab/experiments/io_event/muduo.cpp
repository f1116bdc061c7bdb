// SPDX-License-Identifier: Apache-2.0
// muduo: a Channel per pair.
#include <lab/experiments/io_event/workload.hpp>

#include <muduo/base/Logging.h>
#include <muduo/base/Timestamp.h>
#include <muduo/net/Channel.h>
#include <muduo/net/EventLoop.h>

#include <cstdint>
#include <deque>
#include <span>

namespace {

class muduo_loop {
 public:
  explicit muduo_loop(std::span<lab::io_event::channel> channels) {
    for (lab::io_event::channel& each : channels) {
      muduo::net::Channel& watcher = channels_.emplace_back(&loop_, each.fd());
      watcher.setReadCallback([&each](muduo::Timestamp) { each.readable(); });
    }
  }

  muduo_loop(const muduo_loop&) = delete;
  muduo_loop& operator=(const muduo_loop&) = delete;

  ~muduo_loop() {
    for (muduo::net::Channel& each : channels_) {
      each.disableAll();
      each.remove();
    }
  }

  void watch(std::uint32_t index) { channels_[index].enableReading(); }
  void unwatch(std::uint32_t index) { channels_[index].disableReading(); }
  void run() { loop_.loop(); }
  void stop() { loop_.quit(); }

 private:
  muduo::net::EventLoop loop_;
  std::deque<muduo::net::Channel> channels_;
};

}  // namespace

int main(int argc, char** argv) {
  muduo::Logger::setLogLevel(muduo::Logger::WARN);
  return lab::io_event::contender_main<muduo_loop>(argc, argv, {{"muduo", "2"}});
}
