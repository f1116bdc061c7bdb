// SPDX-License-Identifier: Apache-2.0
// evpp: a TCPConn per socket, made as in its TCPServer after accept. Input is sent directly
// from evpp's Buffer; evpp copies the bytes that the kernel does not accept.
#include <lab/experiments/throughput/contender.hpp>

#include <evpp/buffer.h>
#include <evpp/event_loop.h>
#include <evpp/tcp_conn.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace {

// Access to the members of a connection that evpp reserves to its own servers and clients.
struct adopted : evpp::TCPConn {
  using TCPConn::OnAttachedToLoop;
  using TCPConn::SetCloseCallback;
  using TCPConn::SetConnectionCallback;
  using TCPConn::SetMessageCallback;
  using TCPConn::TCPConn;
};

class evpp_contender {
 public:
  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    evpp::EventLoop loop;
    std::vector<std::shared_ptr<adopted>> connections;
    for (Session& each : sessions) connections.push_back(open(loop, each));
    loop.RunInLoop([&] {
      for (std::size_t i = 0; i < sessions.size(); ++i) {
        connections[i]->OnAttachedToLoop();
        const auto data = sessions[i].first();
        if (!data.empty()) connections[i]->Send(data.data(), data.size());
      }
    });
    loop.Run();
  }

 private:
  template <class Session>
  static std::shared_ptr<adopted> open(evpp::EventLoop& loop, Session& served) {
    auto peer = std::make_shared<adopted>(&loop, "", served.fd(), "", "", 0);
    peer->SetConnectionCallback([&served](const evpp::TCPConnPtr& connection) {
      if (!connection->IsConnected()) served.lost();
    });
    peer->SetMessageCallback([&served](const evpp::TCPConnPtr& connection, evpp::Buffer* buffer) {
      const auto answer =
          served.received(std::as_bytes(std::span(buffer->data(), buffer->length())));
      if (!answer.empty()) connection->Send(answer.data(), answer.size());
      buffer->Reset();
    });
    peer->SetCloseCallback([&served](const evpp::TCPConnPtr&) { served.lost(); });
    return peer;
  }
};

}  // namespace

int main(int argc, char** argv) {
  lab::network::contender_main<evpp_contender>(argc, argv, {{"evpp", "0.7"}});
}
