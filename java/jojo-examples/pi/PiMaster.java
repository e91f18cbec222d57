import java.util.Map;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/** Figure 7 of the paper, as printed but for this comment and the import lines. */
public class PiMaster extends Code{
  long times, perNode;
  int divide;
  boolean done = false;
  long doneTrial = 0, doneResult = 0;

  public void init(Map prop) throws JojoException{
    times = Long.parseLong((String)prop.get("times"));
    divide =
      Integer.parseInt(((String)prop.get("divide")));
    perNode = times / divide;
  }

  public void start() throws JojoException{
    synchronized (this){
      while (!done){
        try {wait();}
        catch (InterruptedException e) {}
      }
      System.out.println("PI = " +
        (((double)doneResult/doneTrial)*4));
    }
  }

  synchronized public Object
  handle(Message msg) throws JojoException{
    if (msg.tag == PiWorker.MSG_TRIAL_REQUEST){
      long [] pair = (long[]) (msg.contents);
      doneTrial += pair[0];
      doneResult += pair[1];
      if (doneTrial >= times){
        done = true;
        notifyAll();
        return new Long(0);
      } else
        return new Long(perNode);
    } else
      throw new JojoException(
        "cannot handle the message: " + msg);
  }
}
