// SPDX-License-Identifier: Apache-2.0
// muduo: a TcpConnection per socket, made as in its TcpServer after accept. Input is sent
// directly from muduo's Buffer; muduo copies the bytes that the kernel does not accept.
#include <lab/experiments/throughput/contender.hpp>

#include <muduo/base/Logging.h>
#include <muduo/net/EventLoop.h>
#include <muduo/net/InetAddress.h>
#include <muduo/net/TcpConnection.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace {

class muduo_contender {
 public:
  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    using namespace muduo;
    Logger::setOutput([](const char*, int) {});  // it would go to stdout, as the result does
    net::EventLoop loop;
    std::vector<net::TcpConnectionPtr> connections;
    for (Session& each : sessions) connections.push_back(open(loop, each));
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      const auto data = sessions[i].first();
      if (!data.empty()) connections[i]->send(data.data(), static_cast<int>(data.size()));
    }
    loop.loop();
  }

 private:
  template <class Session>
  static muduo::net::TcpConnectionPtr open(muduo::net::EventLoop& loop, Session& served) {
    using namespace muduo;
    const net::InetAddress nowhere;
    auto peer = std::make_shared<net::TcpConnection>(&loop, "", served.fd(), nowhere, nowhere);
    peer->setConnectionCallback([&served](const net::TcpConnectionPtr& connection) {
      if (!connection->connected()) served.lost();
    });
    peer->setMessageCallback(
        [&served](const net::TcpConnectionPtr& connection, net::Buffer* buffer, Timestamp) {
          const auto answer =
              served.received(std::as_bytes(std::span(buffer->peek(), buffer->readableBytes())));
          if (!answer.empty()) connection->send(answer.data(), static_cast<int>(answer.size()));
          buffer->retrieveAll();
        });
    peer->setCloseCallback([&served](const net::TcpConnectionPtr&) { served.lost(); });
    peer->connectEstablished();
    return peer;
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::network::contender_main<muduo_contender>(argc, argv, {{"muduo", "2"}});
}
