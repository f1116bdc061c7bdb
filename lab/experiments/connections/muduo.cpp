// SPDX-License-Identifier: Apache-2.0
// muduo: a Channel for the listener, and a TcpConnection per connection, held and released as in
// muduo's TcpServer, which itself cannot take a socket that already listens.
#include <lab/experiments/connections/workload.hpp>

#include <muduo/base/Logging.h>
#include <muduo/base/Timestamp.h>
#include <muduo/net/Channel.h>
#include <muduo/net/EventLoop.h>
#include <muduo/net/InetAddress.h>
#include <muduo/net/TcpConnection.h>

#include <sys/socket.h>

#include <map>
#include <memory>
#include <string>

namespace {

using namespace muduo;

class muduo_server {
 public:
  static void serve(int listener) {
    Logger::setOutput([](const char*, int) {});  // it would go to stdout, as the result does
    muduo_server(listener).loop_.loop();
  }

 private:
  explicit muduo_server(int listener) : accepting_(&loop_, listener) {
    accepting_.setReadCallback([this, listener](Timestamp) { accept(listener); });
    accepting_.enableReading();
  }

  void accept(int listener) {
    for (;;) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::string name = std::to_string(++accepted_);
      auto peer = std::make_shared<net::TcpConnection>(&loop_, name, fd, nowhere_, nowhere_);
      connections_[name] = peer;
      peer->setConnectionCallback([](const net::TcpConnectionPtr&) {});
      peer->setMessageCallback([](const net::TcpConnectionPtr& connection, net::Buffer* buffer,
                                  Timestamp) { connection->send(buffer); });
      peer->setCloseCallback([this](const net::TcpConnectionPtr& connection) {
        connections_.erase(connection->name());
        loop_.queueInLoop([connection] { connection->connectDestroyed(); });
      });
      peer->connectEstablished();
    }
  }

  const net::InetAddress nowhere_;
  net::EventLoop loop_;
  net::Channel accepting_;
  std::map<std::string, net::TcpConnectionPtr> connections_;
  unsigned long accepted_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  lab::connections::contender_main<muduo_server>(argc, argv, {{"muduo", "2"}});
}
