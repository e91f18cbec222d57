import java.util.Random;
import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;

/** Figure 8 of the paper, as printed but for this comment and the import lines. */
public class PiWorker extends Code{
  static final int MSG_TRIAL_REQUEST = 1;
  Random random = new Random();

  public void start()
  throws JojoException{
    long trialTimes = 0;
    long doneTimes = 0;
    while (true){
      Message msg =
        new Message(MSG_TRIAL_REQUEST,
          new long[]{trialTimes, doneTimes});
      trialTimes =
        ((Long)(parent.call(msg))).longValue();
      if (trialTimes == 0) break;
      doneTimes = trial(trialTimes);
    }
  }

  private long trial(long trialTimes){
    long counter = 0;
    for (long i = 0; i < trialTimes; i++){
      double x = random.nextDouble();
      double y = random.nextDouble();
      if (x * x + y * y < 1.0)
        counter++;
    }
    return counter;
  }
}
