package hareline.jms.qpid;

/**
 * The client's two ways to write a destination.
 *
 * <p>Each is used with one of the two ways to begin a connection, so that cases which run for both
 * syntaxes cover both: binding URLs with AMQP 0-9-1 at once, addresses with the client's default,
 * which asks for 0-10 first. ConnectionTest has the other two combinations.
 */
enum Syntax {
  BURL("0-9-1") {
    @Override
    String queue(String name) {
      return "BURL:direct://amq.direct//" + name + "?durable='true'";
    }

    @Override
    String topic(String name) {
      return "BURL:" + name;
    }
  },
  ADDR("0-10") {
    @Override
    String queue(String name) {
      return "ADDR:" + name + "; {create: always, node: {type: queue, durable: true}}";
    }

    @Override
    String topic(String name) {
      return "ADDR:amq.topic/" + name;
    }
  };

  /** The value of the system property qpid.amqp.version. */
  final String version;

  Syntax(String version) {
    this.version = version;
  }

  /** A durable queue that a consumer, or by ADDR also a producer, declares. */
  abstract String queue(String name);

  abstract String topic(String name);
}
