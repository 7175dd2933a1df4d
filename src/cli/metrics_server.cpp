#include "cli/metrics_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "spec/error.h"

namespace zplan {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(2);
constexpr std::size_t kMostHeader = 8192;

std::string response(const char* status, const std::string& body, const std::string& more = "") {
  return "HTTP/1.1 " + std::string(status) +
         "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + more + "Connection: close\r\n\r\n" + body;
}

// Waits until the socket is ready or the time is over.
bool ready(int socket, short events, Clock::time_point until) {
  pollfd one{socket, events, 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    const int n = left > 0 ? ::poll(&one, 1, static_cast<int>(left)) : 0;
    if (n >= 0 || errno != EINTR) return n > 0;
  }
}

void send_all(int connection, const std::string& text, Clock::time_point until) {
  for (std::size_t sent = 0; sent < text.size();) {
    if (!ready(connection, POLLOUT, until)) return;
    const auto n = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void refuse(const std::string& address, const std::string& what) {
  throw InputError("--listen " + address, what,
                   "write ADDRESS:PORT with a free port, such as 127.0.0.1:9400, or none");
}

std::pair<std::string, std::string> host_and_port(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) refuse(address, "is no address with a port");
  std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stol(port) > 65535) refuse(address, "'" + port + "' is no port");
  return {host, port};
}

bool is_loopback(const sockaddr_storage& a) {
  if (a.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr) >> 24 == 127;
}

}  // namespace

std::string http_response(const std::string& request, const std::string& metrics) {
  const std::string line = request.substr(0, request.find("\r\n"));
  const auto first = line.find(' '), second = line.find(' ', first == std::string::npos ? first : first + 1);
  if (second == std::string::npos || line.compare(second, 8, " HTTP/1.") != 0)
    return response("400 Bad Request", "no HTTP/1 request\n");
  std::string path = line.substr(first + 1, second - first - 1);
  path = path.substr(0, path.find('?'));
  if (path != "/metrics") return response("404 Not Found", "only /metrics is here\n");
  if (line.compare(0, first, "GET") != 0) return response("405 Method Not Allowed", "only GET\n", "Allow: GET\r\n");
  return response("200 OK", metrics);
}

MetricsServer::MetricsServer(const std::string& address) {
  const auto [host, port] = host_and_port(address);
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int e = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); e != 0)
    refuse(address, ::gai_strerror(e));
  listener_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens =
      listener_ >= 0 && ::bind(listener_, found->ai_addr, found->ai_addrlen) == 0 && ::listen(listener_, 8) == 0;
  const std::string why = listens ? "" : std::strerror(errno);
  ::freeaddrinfo(found);
  if (!listens || ::pipe(stop_) != 0) {
    if (listener_ >= 0) ::close(listener_);
    refuse(address, why.empty() ? std::strerror(errno) : why);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size);
  local_ = is_loopback(bound);
  const auto number = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                        : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  url_ = "http://" + address.substr(0, address.rfind(':')) + ":" + std::to_string(number) + "/metrics";
  thread_ = std::thread([this] { serve(); });
}

MetricsServer::~MetricsServer() {
  const char stop = 's';
  if (::write(stop_[1], &stop, 1) == 1) thread_.join();
  else thread_.detach();  // cannot happen: the pipe is empty
  for (const int file : {listener_, stop_[0], stop_[1]}) ::close(file);
}

void MetricsServer::publish(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

void MetricsServer::serve() {
  for (;;) {
    pollfd both[2] = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    if (::poll(both, 2, -1) < 0) continue;  // a signal
    if (both[0].revents != 0) return;
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    answer(connection);
    ::close(connection);
  }
}

void MetricsServer::answer(int connection) {
  const auto until = Clock::now() + kPatience;
  std::string request;
  char part[1024];
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (request.size() > kMostHeader)
      return send_all(connection, response("431 Request Header Fields Too Large", "too long\n"), until);
    if (!ready(connection, POLLIN, until)) return;
    const auto n = ::recv(connection, part, sizeof part, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return;
    request.append(part, static_cast<std::size_t>(n));
  }
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = text_;
  }
  send_all(connection, http_response(request, text), until);
  ::shutdown(connection, SHUT_WR);
}

}  // namespace zplan
