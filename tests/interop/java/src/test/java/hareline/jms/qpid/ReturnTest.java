package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import javax.jms.Connection;
import javax.jms.InvalidSelectorException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.AMQConnectionClosedException;
import org.apache.qpid.AMQUndeliveredException;
import org.apache.qpid.client.AMQNoConsumersException;
import org.apache.qpid.client.AMQNoRouteException;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Messages that come back, and what the broker refuses: codes as this client knows them. */
class ReturnTest extends QpidCase {

  private Message returned(Class<? extends AMQUndeliveredException> kind) throws Exception {
    JMSException failure = take(raised, "a returned message");
    return (Message) cause(failure, kind).getUndeliveredMessage();
  }

  @Tag("S7")
  @Test
  void anUnroutableMessageComesBackWith312() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Session session = autoSession(connect());
      String name = name("unroutable");
      Queue queue = session.createQueue(syntax.queue(name));
      MessageProducer producer = session.createProducer(queue);
      if (syntax == Syntax.ADDR) {
        observer.delete(name);
      }
      TextMessage message = session.createTextMessage("nobody");
      message.setStringProperty("p", "v");
      producer.send(message);
      Message back = returned(AMQNoRouteException.class);
      assertEquals("nobody", text(back), "" + syntax);
      assertEquals("v", back.getStringProperty("p"));
      assertEquals(message.getJMSMessageID(), back.getJMSMessageID());
      assertNextIs("alive", session, queue(session, name), session.createConsumer(queue));
    }
  }

  @Tag("S7")
  @Test
  void topicsReturnNothingUnlessAsked() throws Exception {
    Session session = autoSession(connect());
    Topic topic = topic(session, name("nobody"));
    send(session, topic, "lost");
    MessageProducer mandatory = qpid(session).createProducer(topic, true, false);
    mandatory.send(session.createTextMessage("returned"));
    assertEquals("returned", text(returned(AMQNoRouteException.class)));
    assertTrue(raised.isEmpty(), raised::toString);
  }

  @Test
  void aTransactionThatCannotBeRoutedFailsItsCommit() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Session session = transacted(connect());
      String routable = name("routable-tx");
      Queue queue = queue(session, routable);
      String name = name("unroutable-tx");
      MessageProducer producer = session.createProducer(session.createQueue(syntax.queue(name)));
      if (syntax == Syntax.ADDR) {
        observer.delete(name);
      }
      send(session, queue, "goes with the rest");
      producer.send(session.createTextMessage("nobody"));
      JMSException told = take(raised, "the exception listener's call");
      assertTrue(told.getMessage().contains(name), told::toString);
      AMQConnectionClosedException closed = cause(told, AMQConnectionClosedException.class);
      assertEquals(312, closed.getErrorCode());
      assertThrows(JMSException.class, session::commit, "" + syntax);
      assertEquals(0, observer.ready(routable), "" + syntax);
      raised.clear();
    }
  }

  @Test
  void aTransactionWithoutTheFlagForgetsWhatCannotBeRouted() throws Exception {
    Session session = transacted(connect());
    Queue queue = queue(session, name("routable-tx"));
    Queue nowhere = session.createQueue(Syntax.BURL.queue(name("unroutable-tx")));
    qpid(session).createProducer(nowhere, false, false).send(session.createTextMessage("nobody"));
    send(session, queue, "kept");
    session.commit();
    assertEquals("kept", receiveText(session.createConsumer(queue)));
    assertTrue(raised.isEmpty(), raised::toString);
  }

  @Tag("S7")
  @Test
  void transactionsReturnAtCommit() throws Exception {
    Session session = transacted(connect(url().option("closeWhenNoRoute", false)));
    MessageProducer producer =
        session.createProducer(session.createQueue(Syntax.BURL.queue(name("unroutable-tx"))));
    producer.send(session.createTextMessage("one"));
    session.rollback();
    assertTrue(raised.isEmpty(), "nothing was published");
    producer.send(session.createTextMessage("two"));
    session.commit();
    assertEquals("two", text(returned(AMQNoRouteException.class)));
  }

  @Tag("S7")
  @Test
  void immediateMessagesComeBackWith313UnlessSomebodyWaits() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    String name = name("immediate");
    Queue queue = queue(session, name);
    MessageProducer immediate = qpid(session).createProducer(queue, true, true);
    immediate.send(session.createTextMessage("nobody waits"));
    assertEquals("nobody waits", text(returned(AMQNoConsumersException.class)));
    assertEquals(0, observer.ready(name));

    Session receiving = autoSession(connection);
    MessageConsumer consumer = receiving.createConsumer(queue);
    // The first receive makes the flow of the session active; it finds what a plain send left.
    send(session, queue, "first");
    assertEquals("first", receiveText(consumer));
    immediate.send(session.createTextMessage("somebody waits"));
    assertEquals("somebody waits", receiveText(consumer));
    assertTrue(raised.isEmpty(), raised::toString);
  }

  @Tag("S7")
  @Test
  void theBrokerRefusesASelectorThatIsNone() throws Exception {
    // By a consumer argument in an address the text reaches the broker without the client's look.
    Session session = autoSession(connect());
    String name = name("wrong-selector");
    queue(session, name);
    Queue queue =
        session.createQueue(
            "ADDR:"
                + name
                + "; {link: {x-subscribe: {arguments: {'x-filter-jms-selector': 'a = = b'}}}}");
    assertThrows(InvalidSelectorException.class, () -> session.createConsumer(queue));
  }

  @Tag("S7")
  @Test
  void anUnknownExchangeIsNotFound() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("nowhere"));
    assertThrows(
        JMSException.class,
        () -> session.createConsumer(session.createQueue("ADDR:" + name("absent"))));
    assertNextIs("the session lives", session, queue, session.createConsumer(queue));
  }

  @Tag("S7")
  @Test
  void anUnroutableMessageWithoutTheFlagIsDropped() throws Exception {
    Session session = autoSession(connect());
    Queue queue = session.createQueue(Syntax.BURL.queue(name("dropped")));
    MessageProducer producer = qpid(session).createProducer(queue, false, false);
    producer.send(session.createTextMessage("lost"));
    MessageConsumer consumer = session.createConsumer(queue);
    assertNextIs("kept", session, queue, consumer);
    assertTrue(raised.isEmpty(), raised::toString);
  }
}
