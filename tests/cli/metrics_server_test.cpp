#include "cli/metrics_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "spec/error.h"
#include "tests/catch.h"

using namespace zplan;

namespace {

std::uint16_t port_of(const MetricsServer& server) {
  const std::string url = server.url();
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

// A connection to this machine that sends what it is told to.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(socket_); }
  void send(const std::string& text) { ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Whatever comes until the other side ends.
  std::string all() {
    std::string out;
    char part[4096];
    for (ssize_t n = 0; (n = ::recv(socket_, part, sizeof part, 0)) > 0;)
      out.append(part, static_cast<std::size_t>(n));
    return out;
  }

 private:
  int socket_;
};

std::string get(std::uint16_t port) {
  Client client(port);
  client.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  return client.all();
}

}  // namespace

TEST_CASE("only GET /metrics is answered", "[cli]") {
  const auto [request, status] = GENERATE(table<const char*, const char*>({
      {"GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
      {"GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
      {"GET /metrics?x=1 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
      {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
      {"GET /metrics/ HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
      {"GET /../etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"},
      {"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n"},
      {"HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n"},
      {"GETX /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n"},
      {"GET /metrics\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
      {"GET /metrics SSH-2\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
      {"\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
      {"", "HTTP/1.1 400 Bad Request\r\n"},
  }));
  INFO(request);
  CHECK(http_response(request, "m 1\n").rfind(status, 0) == 0);
}

TEST_CASE("the response carries the text and its length", "[cli]") {
  CHECK(http_response("GET /metrics HTTP/1.1\r\n\r\n", "m 1\n") ==
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 4\r\n"
        "Connection: close\r\n\r\nm 1\n");
}

TEST_CASE("the server serves what was published last", "[cli]") {
  MetricsServer server("127.0.0.1:0");
  CHECK(server.only_this_machine());
  server.publish("a 1\n");
  CHECK(get(port_of(server)).find("\r\n\r\na 1\n") != std::string::npos);
  const std::string large(3'000'000, 'x');  // more than a socket's buffer
  server.publish(large);
  const std::string answer = get(port_of(server));
  CHECK(answer.size() > large.size());
  CHECK(answer.substr(answer.size() - large.size()) == large);
}

TEST_CASE("a client that sends too much, too little or leaves does not stop the next one", "[cli]") {
  MetricsServer server("127.0.0.1:0");
  server.publish("a 1\n");
  const auto port = port_of(server);
  {
    Client too_much(port);
    too_much.send("GET /metrics HTTP/1.1\r\nX: " + std::string(8300, 'x'));
    CHECK(too_much.all().rfind("HTTP/1.1 431 ", 0) == 0);
  }
  { Client leaves(port); }
  Client silent(port);
  silent.send("GET /met");
  const auto began = std::chrono::steady_clock::now();
  CHECK(get(port).find("a 1\n") != std::string::npos);  // after the silent one's two seconds
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
  CHECK(silent.all().empty());
}

TEST_CASE("an address that cannot be listened on is an input error", "[cli]") {
  const MetricsServer first("127.0.0.1:0");
  const std::string taken = "127.0.0.1:" + std::to_string(port_of(first));
  const auto address =
      GENERATE_COPY(values<std::string>({taken, "127.0.0.1", ":9400", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
                                         "192.0.2.1:9400", "no-such-host.invalid:9400"}));
  INFO(address);
  try {
    const MetricsServer second(address);
    FAIL("it listens");
  } catch (const InputError& e) {
    CHECK(e.where() == "--listen " + address);
  }
}
