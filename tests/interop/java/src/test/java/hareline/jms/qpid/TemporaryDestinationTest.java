package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import hareline.jms.Patience;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import org.apache.qpid.client.AMQDestination;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Temporary queues and topics, and request and reply over them. */
class TemporaryDestinationTest extends QpidCase {

  @Test
  void aTemporaryQueueGoesWithItsConnectionAndNotBefore() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    TemporaryQueue queue = session.createTemporaryQueue();
    MessageConsumer first = session.createConsumer(queue);
    assertNextIs("one", session, queue, first);
    first.close();
    MessageConsumer second = session.createConsumer(queue);
    assertNextIs("two", session, queue, second);
    second.close();
    MessageConsumer third = autoSession(connection).createConsumer(queue);
    assertNextIs("three", autoSession(connection), queue, third);
    connection.close();
    String name = nameOf(queue);
    Patience.until(() -> !observer.exists(name), "the temporary queue is gone");
  }

  private static String nameOf(Destination destination) {
    return ((AMQDestination) destination).getQueueName();
  }

  @Test
  void deletingATemporaryQueueDeletesIt() throws Exception {
    Session session = autoSession(connect());
    TemporaryQueue queue = session.createTemporaryQueue();
    MessageConsumer consumer = session.createConsumer(queue);
    assertThrows(JMSException.class, queue::delete, "it has a consumer");
    consumer.close();
    queue.delete();
    assertFalse(observer.exists(nameOf(queue)));
  }

  @Tag("M16")
  @Test
  void theArgumentsOfATemporaryQueueAreAccepted() throws Exception {
    // With qpid.queue_lifetime_supported the client declares it with qpid.lifetime_policy and
    // qpid.exclusivity_policy, and its consumers declare it again without.
    Session session = autoSession(connect());
    TemporaryQueue queue = session.createTemporaryQueue();
    MessageConsumer one = session.createConsumer(queue);
    MessageConsumer two = session.createConsumer(queue);
    sendNumbers(session, queue, 2);
    assertNotNull(one.receive(PATIENCE_MS));
    assertNotNull(two.receive(PATIENCE_MS));
  }

  @Test
  void aTemporaryQueueIsItsConnectionsAlone() throws Exception {
    TemporaryQueue queue = autoSession(connect()).createTemporaryQueue();
    Session other = autoSession(connect());
    assertThrows(JMSException.class, () -> other.createConsumer(queue), "the client's own rule");
    String burl = Syntax.BURL.queue(nameOf(queue));
    Session third = autoSession(connect());
    assertThrows(JMSException.class, () -> third.createConsumer(third.createQueue(burl)));
  }

  @Test
  void requestsAreAnsweredToATemporaryQueue() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Session server = autoSession(connect());
      String name = name("requests");
      observer.declare(name, java.util.Map.of());
      Queue requests = server.createQueue(syntax.queue(name));
      answer(server, requests);

      Session client = autoSession(connect());
      TemporaryQueue replies = client.createTemporaryQueue();
      MessageConsumer consumer = client.createConsumer(replies);
      MessageProducer producer = client.createProducer(client.createQueue(syntax.queue(name)));
      for (int i = 0; i < 5; i++) {
        TextMessage request = client.createTextMessage("question " + i);
        request.setJMSReplyTo(replies);
        request.setJMSCorrelationID("c" + i);
        producer.send(request);
      }
      for (int i = 0; i < 5; i++) {
        Message reply = receive(consumer);
        assertEquals("answer to question " + i, text(reply), "" + syntax);
        assertEquals("c" + i, reply.getJMSCorrelationID());
      }
    }
  }

  private static void answer(Session server, Queue requests) throws JMSException {
    MessageProducer anonymous = server.createProducer(null);
    server
        .createConsumer(requests)
        .setMessageListener(
            request -> {
              try {
                TextMessage reply = server.createTextMessage("answer to " + text(request));
                reply.setJMSCorrelationID(request.getJMSCorrelationID());
                anonymous.send(request.getJMSReplyTo(), reply);
              } catch (JMSException failure) {
                throw new IllegalStateException(failure);
              }
            });
  }

  @Test
  void queueRequestorWorks() throws Exception {
    Session server = autoSession(connect());
    String name = name("requestor");
    Queue requests = queue(server, name);
    answer(server, requests);
    Connection connection = connect();
    javax.jms.QueueSession session =
        ((javax.jms.QueueConnection) connection)
            .createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
    javax.jms.QueueRequestor requestor =
        new javax.jms.QueueRequestor(session, session.createQueue("ADDR:" + name));
    Message reply = requestor.request(session.createTextMessage("x"));
    // Not closed: QueueRequestor closes its session first, and the client then deletes the
    // temporary queue on the channel that it has closed.
    assertEquals("answer to x", text(reply));
  }

  @Test
  void temporaryTopicsReachTheirSubscribers() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    TemporaryTopic topic = session.createTemporaryTopic();
    BlockingQueue<String> received = new LinkedBlockingQueue<>();
    MessageConsumer one = session.createConsumer(topic);
    Session listening = autoSession(connection);
    listening
        .createConsumer(topic)
        .setMessageListener(
            message -> {
              try {
                received.add(text(message));
              } catch (JMSException failure) {
                received.add(failure.toString());
              }
            });
    send(autoSession(connect()), topic, "hello");
    assertEquals("hello", receiveText(one));
    assertEquals("hello", take(received, "the listener's copy"));
    one.close();
  }

  @Test
  void requestsAreAnsweredToATemporaryTopic() throws Exception {
    Session server = autoSession(connect());
    Queue requests = queue(server, name("topic-requests"));
    answer(server, requests);
    Session client = autoSession(connect());
    TemporaryTopic replies = client.createTemporaryTopic();
    MessageConsumer consumer = client.createConsumer(replies);
    TextMessage request = client.createTextMessage("question");
    request.setJMSReplyTo(replies);
    client.createProducer(requests).send(request);
    assertEquals("answer to question", receiveText(consumer));
  }
}
