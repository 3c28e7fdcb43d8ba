package hareline.jms.qpid;

import hareline.jms.Broker;
import java.util.ArrayList;
import java.util.List;

/** A connection URL of the client, put together part by part. */
final class Url {
  private final Broker broker;
  private String username;
  private String password;
  private String clientId = "";
  private String vhost;
  private final List<String> brokerOptions = new ArrayList<>();
  private final List<String> options = new ArrayList<>();

  Url(Broker broker) {
    this.broker = broker;
    username = broker.username;
    password = broker.password;
    vhost = broker.vhost.equals("/") ? "" : broker.vhost;
  }

  Url login(String username, String password) {
    this.username = username;
    this.password = password;
    return this;
  }

  Url clientId(String clientId) {
    this.clientId = clientId;
    return this;
  }

  /** What follows the slash behind the client id. */
  Url vhost(String vhost) {
    this.vhost = vhost;
    return this;
  }

  /** An option of the broker's entry in the list of brokers, such as heartbeat. */
  Url brokerOption(String name, Object value) {
    brokerOptions.add(name + "='" + value + "'");
    return this;
  }

  /** An option of the connection, such as maxprefetch. */
  Url option(String name, Object value) {
    options.add(name + "='" + value + "'");
    return this;
  }

  @Override
  public String toString() {
    String entry = "tcp://" + broker.host + ":" + broker.port;
    if (!brokerOptions.isEmpty()) {
      entry += "?" + String.join("&", brokerOptions);
    }
    List<String> all = new ArrayList<>(List.of("brokerlist='" + entry + "'"));
    all.addAll(options);
    return "amqp://"
        + (username + ":" + password + "@" + clientId + "/" + vhost)
        + ("?" + String.join("&", all));
  }
}
